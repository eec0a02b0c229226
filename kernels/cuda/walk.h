// How elementwise kernels share a tensor out, so that a thread's elements take their random bits from one block.
// For .cu files.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/shared/random.h"

namespace octet::cuda {

inline constexpr int walk_threads = 256;

// A thread takes the sixteen elements of a group of 256 that one random block serves (shared/random.h): pairs, 32
// apart, so that sixteen neighbouring threads read neighbouring elements.
struct Walk {
  int64_t first = 0, count = 0;  // this row's elements in the tensor
  uint64_t origin = 0;           // global index of the row's first element
  uint64_t group = 0;            // of 256 elements, global
  unsigned lane = 0;
  __device__ __forceinline__ Walk(int64_t row_length, uint64_t tensor_first) {
    first = static_cast<int64_t>(blockIdx.y) * row_length;
    count = row_length;
    origin = tensor_first + static_cast<uint64_t>(first);
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * walk_threads + threadIdx.x;
    group = origin / 256 + thread / 16;
    lane = static_cast<unsigned>(thread % 16);
  }
  // The block, and the bits of the thread's element j.
  __device__ __forceinline__ Random128 random(const RngKey& key) const {
    return philox(group * 16 + lane, key.step, key.site, key.seed);
  }
  static __device__ __forceinline__ uint32_t bits(const Random128& random, int j) {
    return shared_bits16(random.word[j / 4], static_cast<unsigned>(j / 2 % 2), static_cast<unsigned>(j % 2));
  }
  // visit(element of the tensor, j, channel)
  template <class Visit>
  __device__ __forceinline__ void operator()(unsigned channels, const Visit& visit) const {
    const unsigned within_pair = 1 % channels, between_pairs = 31 % channels;
    unsigned channel = channels;  // not known yet
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const int64_t i =
          static_cast<int64_t>(group * 256 + static_cast<uint64_t>(32 * (j / 2) + j % 2) + 2 * lane - origin);
      if (i < 0 || i >= count) continue;
      const unsigned step = j % 2 == 1 ? within_pair : between_pairs;
      if (channel == channels)
        channel = static_cast<unsigned>(first + i) % channels;
      else
        channel = channel + step < channels ? channel + step : channel + step - channels;
      visit(first + i, j, static_cast<int>(channel));
    }
  }
};
// Blocks that cover a row wherever it begins in its group.
inline dim3 walk_grid(int64_t rows, int64_t row_length) {
  return dim3(blocks_for(row_length + 255, walk_threads * 16), static_cast<unsigned>(rows));
}

}  // namespace octet::cuda
