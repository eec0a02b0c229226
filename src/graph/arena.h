// Places memory blocks in one arena. Two blocks share bytes only if their lifetimes do not overlap.
#pragma once
#include <cstddef>
#include <vector>

namespace octet {

struct MemoryBlock {
  size_t bytes = 0;
  int first = 0, last = 0;  // lifetime: the first and the last time at which the bytes are needed
  size_t offset = 0;        // in the arena, in bytes; set by place_blocks()
};

// Sets the offset of each block. The largest blocks are placed first, each at the lowest offset that is free for its
// whole lifetime. own_slots: no two blocks share memory. Results must be the same with and without it. Returns the
// arena's size in bytes.
size_t place_blocks(std::vector<MemoryBlock>& blocks, bool own_slots);

}  // namespace octet
