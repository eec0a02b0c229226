// Memory blocks share an arena without overlap.
#include <gtest/gtest.h>

#include "kernels/shared/random.h"
#include "src/graph/arena.h"

namespace octet {
namespace {

TEST(Arena, BlocksThatLiveTogetherNeverOverlap) {
  std::vector<MemoryBlock> blocks;
  for (uint32_t i = 0; i < 200; ++i) {
    const Random128 r = philox(i, 1, 2, 3);
    const int first = int(r.word[0] % 50);
    blocks.push_back({1 + r.word[1] % 5000, first, first + int(r.word[2] % 20), 0});
  }
  const size_t total = place_blocks(blocks, false);
  size_t sum = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].offset + blocks[i].bytes, total);
    sum += blocks[i].bytes;
    for (size_t j = 0; j < i; ++j) {
      const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool overlap = blocks[i].offset < blocks[j].offset + blocks[j].bytes &&
                           blocks[j].offset < blocks[i].offset + blocks[i].bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
  EXPECT_LT(total, sum * 3 / 4);  // it does share
  EXPECT_GE(place_blocks(blocks, true), sum);
}

}  // namespace
}  // namespace octet
