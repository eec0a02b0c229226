#include <gtest/gtest.h>

#include "comm/agreement.h"
#include "tests/comm/ranks.h"

namespace octet::test {
namespace {

TEST(SameBuild, ThisProgramHasAnId) {
  EXPECT_GE(build_id().size(), 16u);
  EXPECT_EQ(build_id().find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(SameBuild, AnotherBuildIsNamedOnEveryRank) {
  on_ranks([](Transport& transport) {
    EXPECT_NO_THROW(require_same_build(transport, "octet 1"));
    if (transport.size() == 1) return;
    const bool last = transport.rank() == transport.size() - 1;
    try {
      require_same_build(transport, last ? "octet 2" : "octet 1");
      ADD_FAILURE() << "no error on rank " << transport.rank();
    } catch (const UsageError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("rank " + std::to_string(transport.size() - 1) + " on "), std::string::npos) << what;
      EXPECT_NE(what.find("runs octet 2, but rank 0 on "), std::string::npos) << what;
    }
  });
}

}  // namespace
}  // namespace octet::test
