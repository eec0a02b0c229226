#include <gtest/gtest.h>

#include <algorithm>

#include "src/data/loader.h"

namespace octet {
namespace {

TEST(Order, IsAPermutation) {
  for (int64_t size : {1, 2, 3, 64, 10007}) {
    auto order = epoch_order(size, 5, 3);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(Order, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(epoch_order(1000, 1, 0), epoch_order(1000, 1, 0));
  EXPECT_NE(epoch_order(1000, 1, 0), epoch_order(1000, 1, 1));
  EXPECT_NE(epoch_order(1000, 1, 0), epoch_order(1000, 2, 0));
}

// Each of the 24 orders of four things is as likely as any other: 24,000 draws, chi-squared with 23 degrees of freedom
// stays below 49.7 with probability 0.999.
TEST(Order, IsUniform) {
  std::vector<std::vector<uint32_t>> orders;
  std::vector<double> counts;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) {
    const auto order = epoch_order(4, 9, epoch);
    const auto found = std::find(orders.begin(), orders.end(), order);
    if (found == orders.end()) {
      orders.push_back(order);
      counts.push_back(1);
    } else {
      ++counts[found - orders.begin()];
    }
  }
  ASSERT_EQ(orders.size(), 24u);
  double chi_squared = 0;
  for (double count : counts) chi_squared += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi_squared, 49.7);
}

}  // namespace
}  // namespace octet
