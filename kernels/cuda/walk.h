// How elementwise kernels assign a tensor's elements to threads, so that a thread's elements take their random bits
// from one block. For .cu files.
#pragma once
#include <numeric>

#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/random.h"

namespace octet::cuda {

inline constexpr int walk_threads = 256;
inline constexpr int group_elements = RandomGroup::elements, group_threads = RandomGroup::counters;

// The random bits of element j of the sixteen that one counter serves, see bits_of_word(). Comparisons choose the word:
// registers cannot be indexed.
__device__ __forceinline__ uint32_t random_bits_of(const Random128& random, int j) {
  constexpr int next = RandomGroup::per_word;
  const uint32_t low = j < next ? random.word[0] : random.word[1],
                 high = j < 3 * next ? random.word[2] : random.word[3];
  return bits_of_word(j < 2 * next ? low : high, static_cast<unsigned>(j));
}

// A thread takes the elements of a group (shared/random.h) that one counter serves. These are pairs, and sixteen
// neighbouring threads read neighbouring pairs.
struct Walk {
  int64_t count = 0;    // elements of the tensor
  uint64_t origin = 0;  // global index of the tensor's first element
  uint64_t group = 0;   // global
  unsigned lane = 0;    // counter of the group
  __device__ __forceinline__ Walk(int64_t elements, uint64_t first) : count(elements), origin(first) {
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * walk_threads + threadIdx.x;
    group = origin / group_elements + thread / group_threads;
    lane = static_cast<unsigned>(thread % group_threads);
  }
  __device__ __forceinline__ Random128 random(const RngKey& key) const { return random_of_group(key, group, lane); }
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
    return static_cast<int64_t>(group * group_elements + element_of_group(static_cast<unsigned>(j), lane) - origin);
  }
  template <int width, class Fetch, class Visit>
  __device__ __forceinline__ void go(Width<width> some, unsigned channels, const Fetch& fetch,
                                     const Visit& visit) const {
    constexpr int batch = 4;  // fetched together
    const unsigned within_pair = 1 % channels,
                   between_pairs = (RandomGroup::half - 2 + static_cast<unsigned>(width)) % channels;
    unsigned channel = channels;  // not known yet
#pragma unroll 1
    for (int begin = 0; begin < RandomGroup::per_counter; begin += batch * width) {
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

// Four neighbours at a time: a thread takes four rows of four in each of its groups, row r of thread t from element
// 128 (t / 8) + 32 r + 4 (t % 8) of the group on: those of two counters and two words. Its groups lie `step` apart, so
// that their channels are the same and a thread reads the coefficients of a row once. Needs count, origin and channels
// that are multiples of 4.
struct WideWalk {
  static constexpr int groups = 2, rows = 4, width = 2 * RandomGroup::counter, row_step = RandomGroup::half;
  int64_t count = 0;              // elements of the tensor
  int64_t first = 0, stride = 0;  // element of the thread's first row in its first group; elements between its groups
  uint64_t group = 0;             // its first group, global
  unsigned step = 0, lane = 0;
  __device__ __forceinline__ WideWalk(int64_t elements, uint64_t origin, int group_step)
      : count(elements), stride(group_elements * group_step), step(static_cast<unsigned>(group_step)) {
    lane = threadIdx.x % group_threads;
    const unsigned thread = (blockIdx.x * walk_threads + threadIdx.x) / group_threads, span = thread / step;
    group = origin / group_elements + static_cast<uint64_t>(span) * step * groups + (thread - span * step);
    first =
        static_cast<int64_t>(group * group_elements + lane / 8 * (2 * RandomGroup::word) + lane % 8 * width - origin);
  }
  __device__ __forceinline__ int64_t element(int row, int k) const { return first + k * stride + row * row_step; }
  __device__ __forceinline__ bool inside(int64_t element) const {
    return static_cast<uint64_t>(element) < static_cast<uint64_t>(count);
  }
  // The first channel of the row in every group; group 1 lies at no negative element.
  __device__ __forceinline__ int channel(int row, int channels) const {
    return static_cast<int>(Walk::channel_of(static_cast<uint64_t>(element(row, 1)), static_cast<unsigned>(channels)));
  }
  // Of the thread's group k. word[row / 2 * 2 + e / 2] serves element e of a row, from its byte row % 2 + 2 (e % 2) on
  // (shared/random.h). Two threads hold the words of each other's elements: each draws a block, and they exchange half.
  __device__ __forceinline__ Random128 random(const RngKey& key, int k) const {
    const bool upper = lane >= 8;
    const Random128 own = random_of_group(key, group + static_cast<unsigned>(k) * step, lane % 8 * 2 + lane / 8);
    const uint32_t first_word = __shfl_xor_sync(~0u, upper ? own.word[0] : own.word[2], 8);
    const uint32_t second_word = __shfl_xor_sync(~0u, upper ? own.word[1] : own.word[3], 8);
    if (upper) return {{first_word, own.word[2], second_word, own.word[3]}};
    return {{own.word[0], first_word, own.word[1], second_word}};
  }
};
// Groups after which the channels of a row come again.
inline int wide_step(int channels) { return static_cast<int>(std::lcm(group_elements, channels) / group_elements); }
inline dim3 wide_grid(int64_t count, int channels) {
  const int64_t step = wide_step(channels),
                spans = blocks_for(count + group_elements - 1, group_elements * step * WideWalk::groups);
  return dim3(blocks_for(spans * step, walk_threads / group_threads));
}
// Enough blocks wherever the tensor begins within its group.
inline dim3 walk_grid(int64_t count) {
  return dim3(blocks_for(count + group_elements - 1, walk_threads * RandomGroup::per_counter));
}

}  // namespace octet::cuda
