// Places blocks with lifetimes in one arena: two blocks share bytes only when their lives do not overlap.
#pragma once
#include <cstddef>
#include <vector>

namespace octet {

struct MemoryBlock {
  size_t bytes = 0;
  int first = 0, last = 0;  // the times between which the bytes must survive, inclusive
  size_t offset = 0;        // the answer
};

// Largest blocks first, each at the lowest offset that is free for its whole life. own_slots: nothing is shared (the
// aliasing guard: results must be bit-equal). Returns the arena's size.
size_t place_blocks(std::vector<MemoryBlock>& blocks, bool own_slots);

}  // namespace octet
