// A kernel's work on many tensors: each has blocks of its own. For .cu files.
#pragma once
#include "kernels/cuda/device.h"

namespace octet::cuda {

// most: as many as a kernel's arguments hold, which are at most 4 KiB.
template <class Item, int most_items>
struct Table {
  static constexpr int most = most_items;
  int count = 0, blocks = 0;
  int first_block[most];
  Item at[most];

  bool full() const { return count == most; }
  void clear() { count = blocks = 0; }
  void add(const Item& item, unsigned own_blocks) {
    first_block[count] = blocks;
    at[count++] = item;
    blocks += static_cast<int>(own_blocks);
  }

  // What this block works on: an item, and the number of the block among its own.
  struct Place {
    int item = 0;
    int64_t block;
    __device__ __forceinline__ explicit Place(const Table& table) {
      const int own = static_cast<int>(blockIdx.x);
      while (item + 1 < table.count && table.first_block[item + 1] <= own) ++item;
      block = own - table.first_block[item];
    }
  };
};

// Fills tables with the works, by add(work, table), and calls launch(table) for each that is full or the last.
template <class Items, class Works, class Add, class Launch>
void launch_in_tables(const Works& works, const Add& add, const Launch& launch) {
  Items items;
  for (const auto& work : works) {
    add(work, items);
    if (items.full()) launch(items), items.clear();
  }
  if (items.count > 0) launch(items);
}

}  // namespace octet::cuda
