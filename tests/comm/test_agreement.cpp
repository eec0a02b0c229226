#include <gtest/gtest.h>

#include <vector>

#include "comm/agreement.h"
#include "kernels/base/error.h"
#include "tests/comm/ranks.h"

namespace octet::test {
namespace {

const std::vector<std::string> three_names = {"conv1.weight", "bn1.gamma", "fc.weight"};

std::string message_of(Transport& transport, std::span<const std::string> names, std::span<const uint64_t> hashes) {
  try {
    check_agreement(transport, names, hashes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Agreement, EqualHashesPass) {
  on_ranks([](Transport& transport) {
    EXPECT_EQ(message_of(transport, three_names, std::vector<uint64_t>{1, 2, 3}), "");
    EXPECT_EQ(message_of(transport, {}, {}), "");
  });
}

TEST(Agreement, TheFirstDifferingParameterAndItsRanksAreNamedOnAllRanks) {
  on_ranks([](Transport& transport) {
    const bool odd = transport.rank() == 1;
    const std::string message =
        message_of(transport, three_names, std::vector<uint64_t>{1, odd ? 0xABu : 0xCDu, odd ? 4u : 3u});
    EXPECT_NE(message.find("'bn1.gamma'"), std::string::npos) << message;
    EXPECT_NE(message.find("0xab on ranks 1,"), std::string::npos) << message;
    EXPECT_NE(message.find("0xcd on ranks 0"), std::string::npos) << message;
    EXPECT_EQ(message.find("fc.weight"), std::string::npos) << message;
  });
}

TEST(Agreement, DifferentNumbersOfParametersAreAnError) {
  on_ranks([](Transport& transport) {
    const size_t count = transport.rank() == 0 ? 2 : 3;
    const std::vector<uint64_t> hashes = {1, 2, 3};
    const std::string message =
        message_of(transport, std::span(three_names).first(count), std::span(hashes).first(count));
    EXPECT_NE(message.find("different numbers of parameters"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace octet::test
