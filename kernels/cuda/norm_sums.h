// Sums of the norm's backward pass over one chunk, in the order of shared/sums.h. For .cu files.
#pragma once
#include "kernels/cuda/store.h"

namespace octet::cuda {

// What a lane has of some neighbouring channels: the sums over every eighth pixel of a chunk. The CPU's passes take
// subnormal numbers for zero.
template <int width>
struct NormPart {
  Values<width> sum = {}, dot = {};  // of dz, of dz x
  __device__ __forceinline__ void add(const Values<width>& dz, const Values<width>& number) {
#pragma unroll
    for (int e = 0; e < width; ++e) {
      sum.at[e] = sum_flushed(sum.at[e], dz.at[e]);
      dot.at[e] = sum_flushed(dot.at[e], product_flushed(dz.at[e], number.at[e]));
    }
  }
};

// Eight lanes, four apart, hold parts of the same neighbours. Returns their sum for the neighbour that own_neighbour()
// names: while a lane holds several, it gives half of them away.
template <int width>
__device__ __forceinline__ int own_neighbour(int lane) {
  return width == 8 ? lane >> 2 : width == 2 ? lane >> 4 : 0;
}
template <int width>
__device__ __forceinline__ float over_lanes(Values<width> of, int lane) {
  int left = width;
#pragma unroll
  for (int mask = 16; mask >= 4; mask /= 2) {
    const bool upper = (lane & mask) != 0;
    left /= 2;
#pragma unroll
    for (int e = 0; e < (left > 0 ? left : 1); ++e) {
      const float second = left > 0 ? of.at[(e + left) % width] : of.at[e];
      const float kept = upper ? second : of.at[e], given = upper ? of.at[e] : second;
      of.at[e] = sum_flushed(kept, __shfl_xor_sync(~0u, given, mask));
    }
  }
  return of.at[0];
}

}  // namespace octet::cuda
