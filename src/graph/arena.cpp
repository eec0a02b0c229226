#include "src/graph/arena.h"

#include <algorithm>
#include <numeric>

namespace octet {

size_t place_blocks(std::vector<MemoryBlock>& blocks, bool own_slots) {
  constexpr size_t alignment = 256;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  size_t total = 0;
  std::vector<const MemoryBlock*> placed;  // sorted by offset
  for (size_t index : order) {
    MemoryBlock& block = blocks[index];
    const size_t bytes = (block.bytes + alignment - 1) / alignment * alignment;
    size_t offset = own_slots ? total : 0;
    if (!own_slots) {
      for (const MemoryBlock* other : placed) {
        const bool alive_together = other->first <= block.last && block.first <= other->last;
        if (!alive_together || other->offset + other->bytes <= offset) continue;
        if (offset + bytes <= other->offset) break;
        offset = (other->offset + other->bytes + alignment - 1) / alignment * alignment;
      }
    }
    block.offset = offset;
    total = std::max(total, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &block,
                                   [](const MemoryBlock* a, const MemoryBlock* b) { return a->offset < b->offset; }),
                  &block);
  }
  return total;
}

}  // namespace octet
