// Files for LiteRT: what is read back is what was written. tests/peers/litert.py runs such files.
#include "src/deploy/litert.h"
#include "tests/deploy/trained.h"

namespace octet {
namespace {

class LitertFiles : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Networks, LitertFiles,
                         testing::Values(Case{"resnet20", 32}, Case{"mobilenet_v2", 32}, Case{"efficientnet_lite0", 32},
                                         Case{"alexnet", 32, true}, Case{"resnet18", 32, true},
                                         Case{"inception_v3", 32}),
                         name_of_case);

TEST_P(LitertFiles, HoldTheNetwork) {
  const Case& c = GetParam();
  Harness harness = trained(c, 2);
  const IntegerNetwork network = with_separate_sums(network_of(harness, folded(harness), c.size));
  const std::map<std::string, std::string> metadata = {{"classes", "[\"a\", \"b\"]"}, {"commit", "0123"}};
  const NetworkFile back = read_litert(write_litert({network, metadata}), "a file");
  EXPECT_EQ(difference(network, back.network), "");
  EXPECT_EQ(back.metadata, metadata);
}

std::string refusal(const std::string& content) {
  try {
    read_litert(content, "model.tflite");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string small_file() {
  Harness harness = trained({"resnet20", 32}, 2);
  return write_litert({with_separate_sums(network_of(harness, folded(harness), 32)), {}});
}

TEST(LitertFile, RefusesWhatOctetDidNotWrite) {
  EXPECT_NE(refusal("").find("model.tflite is no LiteRT file"), std::string::npos);
  EXPECT_NE(refusal("no flatbuffer, but long enough").find("is no LiteRT file"), std::string::npos);
  const std::string whole = small_file();
  EXPECT_EQ(whole.substr(4, 4), "TFL3");
  EXPECT_NE(refusal(whole.substr(0, whole.size() / 2)).find("is no LiteRT file"), std::string::npos);
}

// A damaged file is refused, or a network of sound sizes.
TEST(LitertFile, DamageIsNoCrash) {
  const std::string whole = small_file();
  int refused = 0;
  for (size_t at = 0; at < whole.size(); at += 1 + at / 64) {
    std::string damaged = whole;
    damaged[at] = char(damaged[at] ^ 0x55);
    refused += refusal(damaged) != "no error";
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace octet
