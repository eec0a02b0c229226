// How elementwise kernels assign a tensor's elements to threads, so that a thread's elements take their random bits
// from one block. For .cu files.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/random.h"

namespace octet::cuda {

inline constexpr int walk_threads = 256;

// Element j of a thread's sixteen, relative to the group of 256 elements that one random block serves
// (shared/random.h): pairs, 32 apart, so that sixteen neighbouring threads read neighbouring elements.
__device__ __forceinline__ uint64_t place_in_group(int j, unsigned lane) {
  return static_cast<uint64_t>(32 * (j / 2) + j % 2) + 2 * lane;
}
// The random bits of a thread's element j. Comparisons choose the word: registers cannot be indexed.
__device__ __forceinline__ uint32_t random_bits_of(const Random128& random, int j) {
  const uint32_t low = j < 4 ? random.word[0] : random.word[1], high = j < 12 ? random.word[2] : random.word[3];
  return shared_bits16(j < 8 ? low : high, static_cast<unsigned>(j / 2 % 2), static_cast<unsigned>(j % 2));
}

struct Walk {
  int64_t count = 0;    // elements of the tensor
  uint64_t origin = 0;  // global index of the tensor's first element
  uint64_t group = 0;   // of 256 elements, global
  unsigned lane = 0;
  __device__ __forceinline__ Walk(int64_t elements, uint64_t first) : count(elements), origin(first) {
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * walk_threads + threadIdx.x;
    group = origin / 256 + thread / 16;
    lane = static_cast<unsigned>(thread % 16);
  }
  __device__ __forceinline__ Random128 random(const RngKey& key) const {
    return philox(group * 16 + lane, key.step, key.layer_id, key.seed);
  }
  // Calls fetch(width, element of the tensor) for some elements, then visit(width, element, j, channel, what was
  // fetched) for them. paired: memory and shape let a pair be read at once if its first element lies at an even place.
  template <class Fetch, class Visit>
  __device__ __forceinline__ void operator()(bool paired, unsigned channels, const Fetch& fetch,
                                             const Visit& visit) const {
    if (paired && origin % 2 == 0)
      go(Width<2>{}, channels, fetch, visit);
    else
      go(Width<1>{}, channels, fetch, visit);
  }

  // A 64-bit remainder takes about seventy instructions, so it is used only where it must be.
  static __device__ __forceinline__ unsigned channel_of(uint64_t element, unsigned channels) {
    return element >> 32 == 0 ? static_cast<unsigned>(element) % channels : static_cast<unsigned>(element % channels);
  }

 private:
  __device__ __forceinline__ int64_t element(int j) const {
    return static_cast<int64_t>(group * 256 + place_in_group(j, lane) - origin);
  }
  template <int width, class Fetch, class Visit>
  __device__ __forceinline__ void go(Width<width> some, unsigned channels, const Fetch& fetch,
                                     const Visit& visit) const {
    constexpr int batch = 4;  // fetched together
    const unsigned within_pair = 1 % channels, between_pairs = (30 + static_cast<unsigned>(width)) % channels;
    unsigned channel = channels;  // not known yet
#pragma unroll 1
    for (int begin = 0; begin < 16; begin += batch * width) {
      decltype(fetch(some, int64_t{})) fetched[batch] = {};
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        const int64_t i = element(begin + k * width);
        if (i >= 0 && i < count) fetched[k] = fetch(some, i);
      }
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        const int j = begin + k * width;
        const int64_t i = element(j);
        if (i < 0 || i >= count) continue;
        const unsigned step = j % 2 == 1 ? within_pair : between_pairs;
        if (channel == channels)
          channel = channel_of(static_cast<uint64_t>(i), channels);
        else
          channel = channel + step < channels ? channel + step : channel + step - channels;
        visit(some, i, j, static_cast<int>(channel), fetched[k]);
      }
    }
  }
};

// The same sixteen elements of a thread as two rows of eight neighbours, row r of thread t from element
// 64 (t % 4) + 32 r + 8 (t / 4) of the group on. Needs count, origin and channels that are multiples of 8.
struct WideWalk : Walk {
  using Walk::Walk;
  // Word e / 2 serves element e of a row. Four threads hold the words of each other's elements: each draws a block, and
  // they exchange words so that thread t gets word t of all four.
  __device__ __forceinline__ Random128 random(const RngKey& key) const {
    Random128 own = Walk::random(key);
    exchange<1>(own.word[0], own.word[1]);
    exchange<1>(own.word[2], own.word[3]);
    exchange<2>(own.word[0], own.word[2]);
    exchange<2>(own.word[1], own.word[3]);
    return own;
  }
  // Calls fetch(element of the tensor) for both rows, then visit(element, row, channel, what was fetched).
  template <class Fetch, class Visit>
  __device__ __forceinline__ void operator()(unsigned channels, const Fetch& fetch, const Visit& visit) const {
    decltype(fetch(int64_t{})) fetched[2] = {};
#pragma unroll
    for (int row = 0; row < 2; ++row)
      if (inside(row)) fetched[row] = fetch(element(row));
#pragma unroll
    for (int row = 0; row < 2; ++row)
      if (inside(row))
        visit(element(row), row, static_cast<int>(channel_of(static_cast<uint64_t>(element(row)), channels)),
              fetched[row]);
  }

 private:
  __device__ __forceinline__ int64_t element(int row) const {
    return static_cast<int64_t>(group * 256 + lane % 4 * 64 + lane / 4 * 8 + static_cast<unsigned>(row) * 32 - origin);
  }
  __device__ __forceinline__ bool inside(int row) const { return element(row) >= 0 && element(row) < count; }
  // The lower thread of two gives its `high` for the other's `low`.
  template <int distance>
  __device__ __forceinline__ void exchange(uint32_t& low, uint32_t& high) const {
    const bool upper = (lane & distance) != 0;
    const uint32_t received = __shfl_xor_sync(~0u, upper ? low : high, distance);
    (upper ? low : high) = received;
  }
};
// Enough blocks wherever the tensor begins within its group.
inline dim3 walk_grid(int64_t count) { return dim3(blocks_for(count + 255, walk_threads * 16)); }

}  // namespace octet::cuda
