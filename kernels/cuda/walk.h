// How elementwise kernels assign a tensor's elements to threads, so that a thread's elements take their random bits
// from one block. For .cu files.
#pragma once
#include <numeric>

#include "kernels/cuda/device.h"
#include "kernels/cuda/geometry.h"
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

// Eight neighbours at a time: thread t of a group takes those from element 64 (t / 4) + 8 (t % 4) of the group on, and
// those 32 elements behind them. Its groups lie `stride` elements apart, so that their channels are the same and a
// thread reads the coefficients of a row once.
struct WideExtent {
  uint32_t count = 0;  // elements of the tensor
  Divisor step;        // groups after which the channels of a row come again
  Divisor channels;
  int row_channels = 0;  // 32 % channels
  WideExtent(int64_t elements, int tensor_channels)
      : count(static_cast<uint32_t>(elements)),
        step(std::lcm(group_elements, tensor_channels) / group_elements),
        channels(tensor_channels),
        row_channels(RandomGroup::half % tensor_channels) {}
  dim3 grid(int groups) const {
    const int64_t spans =
        blocks_for(int64_t{count} + group_elements - 1, int64_t{group_elements} * step.value * groups);
    return dim3(blocks_for(spans * step.value, walk_threads / group_threads));
  }
  // Whether element numbers fit into 31 bits, also those of threads beyond the tensor.
  static bool fits(int64_t elements, int channels) {
    return elements <= 1 << 30 && std::lcm(int64_t{group_elements}, int64_t{channels}) <= 1 << 27;
  }
};
template <int groups>
struct WideWalk {
  static constexpr int rows = 2;
  int first = 0, stride = 0;  // element of the thread's first row in its first group, perhaps below 0
  uint32_t count = 0;
  uint64_t group = 0;  // its first group, global
  unsigned step = 0, lane = 0;
  // origin: global index of the tensor's first element, a multiple of 8 as `channels` and `elements` are.
  __device__ __forceinline__ WideWalk(const WideExtent& extent, uint64_t origin)
      : stride(group_elements * extent.step.value),
        count(extent.count),
        step(static_cast<unsigned>(extent.step.value)),
        lane(threadIdx.x % group_threads) {
    const int thread = static_cast<int>((blockIdx.x * walk_threads + threadIdx.x) / group_threads);
    const int span = quotient(thread, extent.step), own = thread + span * extent.step.value * (groups - 1);
    group = origin / group_elements + static_cast<unsigned>(own);
    first = own * group_elements + static_cast<int>(lane / 4 * RandomGroup::word + lane % 4 * 8) -
            static_cast<int>(origin % group_elements);
  }
  __device__ __forceinline__ int element(int k) const { return first + k * stride; }  // of row 0 in group k
  __device__ __forceinline__ bool inside(int64_t element) const { return static_cast<uint32_t>(element) < count; }
  // The first channel of a row in every group; group 1 lies at no negative element.
  __device__ __forceinline__ int channel(const WideExtent& extent) const {
    const int at = element(1);
    return at - quotient(at, extent.channels) * extent.channels.value;
  }
  static __device__ __forceinline__ int next_row(const WideExtent& extent, int channel) {
    const int next = channel + extent.row_channels;
    return next < extent.channels.value ? next : next - extent.channels.value;
  }
  // The words of the thread's group k: word[e / 2] serves element e of row h, from its byte h + 2 (e % 2) on
  // (shared/random.h). Four threads draw a block each, and each keeps one word of all.
  __device__ __forceinline__ Random128 random(const RngKey& key, int k) const {
    const unsigned q = lane / 4;
    Random128 own = random_of_group(key, group + static_cast<unsigned>(k) * step, lane % 4 * 4 + q);
    uint32_t(&w)[4] = own.word;
    const bool odd = q % 2 != 0, upper = q / 2 != 0;
    const uint32_t a = __shfl_xor_sync(~0u, odd ? w[0] : w[1], 4), b = __shfl_xor_sync(~0u, odd ? w[2] : w[3], 4);
    w[0] = odd ? a : w[0], w[1] = odd ? w[1] : a, w[2] = odd ? b : w[2], w[3] = odd ? w[3] : b;
    const uint32_t c = __shfl_xor_sync(~0u, upper ? w[0] : w[2], 8), d = __shfl_xor_sync(~0u, upper ? w[1] : w[3], 8);
    w[0] = upper ? c : w[0], w[2] = upper ? w[2] : c, w[1] = upper ? d : w[1], w[3] = upper ? w[3] : d;
    return own;
  }
};
// Enough blocks wherever the tensor begins within its group.
inline dim3 walk_grid(int64_t count) {
  return dim3(blocks_for(count + group_elements - 1, walk_threads * RandomGroup::per_counter));
}

}  // namespace octet::cuda
