// The instruction sets of the processor that qemu emulates. OCTET_EXPECTED_ISAS names them, the best last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/backend.h"

namespace octet {
namespace {

TEST(CrossTiers, AreThoseOfTheProcessor) {
  const char* const expected = std::getenv("OCTET_EXPECTED_ISAS");
  ASSERT_NE(expected, nullptr) << "tests/cross.sh sets OCTET_EXPECTED_ISAS";
  std::string names;
  for (const Isa isa : available_isas()) names += (names.empty() ? "" : " ") + std::string(name_of(isa));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(best_isa(), available_isas().back());
}

// A tier that the processor cannot run is refused in one line and one that helps, before its first instruction.
TEST(CrossTiers, OthersAreRefused) {
  const std::vector<Isa> available = available_isas();
  int refused = 0;
  for (const std::string& name : isa_names()) {
    const Isa isa = isa_from_name(name);
    if (std::ranges::find(available, isa) != available.end()) continue;
    try {
      make_cpu_backend({.isa = isa, .threads = 1});
      ADD_FAILURE() << name << " was taken";
    } catch (const UsageError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find("this processor cannot run " + name + "\n"), 0u) << message;
      EXPECT_NE(message.find("choose " + std::string(name_of(best_isa()))), std::string::npos) << message;
      EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
      ++refused;
    }
  }
  EXPECT_EQ(refused, static_cast<int>(isa_names().size() - available.size()));
}

}  // namespace
}  // namespace octet
