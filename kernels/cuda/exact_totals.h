// How blocks of a convolution of codes add exact moments of its channels, see shared/exact_moments.h. For .cu files.
#pragma once
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/exact_moments.h"

namespace octet::cuda {

// Of a channel over some pixels. raised() is a number without sign that grows with the sum, and is never 0.
struct ChannelSums {
  int64_t sum = 0;
  SquareSum squares;
  uint32_t most = 0, least = 0;  // the largest raised(sum), and the largest of those of -sum
  static __device__ __forceinline__ uint32_t raised(int32_t sum) { return static_cast<uint32_t>(sum) ^ 0x80000000u; }
  static __device__ __forceinline__ int32_t lowered(uint32_t sum) { return static_cast<int32_t>(sum ^ 0x80000000u); }

  __device__ __forceinline__ void add_squares(uint64_t square) {
    squares.low += static_cast<uint32_t>(square);
    squares.high += square >> 32;
  }
  // The sum of a pixel: |own| < 2^31.
  __device__ __forceinline__ void add(int32_t own) {
    add_without_extremes(own);
    raise(own);
  }
  __device__ __forceinline__ void add_without_extremes(int32_t own) {
    sum += own;
    add_squares(static_cast<uint64_t>(static_cast<int64_t>(own) * own));
  }
  __device__ __forceinline__ void raise(int32_t own) {
    most = raised(own) > most ? raised(own) : most;
    least = raised(-own) > least ? raised(-own) : least;
  }
  __device__ __forceinline__ void add(const ChannelSums& other) {
    sum += other.sum;
    squares.low += other.squares.low;
    squares.high += other.squares.high;
    most = other.most > most ? other.most : most;
    least = other.least > least ? other.least : least;
  }
  __device__ __forceinline__ ChannelSums from_lane(int mask) const {
    const auto get = [&](auto value) { return __shfl_xor_sync(~0u, value, mask); };
    return {get(sum), {get(squares.low), get(squares.high)}, get(most), get(least)};
  }
};

// Adds the block's part of one channel to the totals.
__device__ __forceinline__ void add_to_totals(const ExactTotals& to, int channel, const ChannelSums& part) {
  add_atomically(to.sum + channel, part.sum);
  add_atomically(to.low + channel, static_cast<int64_t>(part.squares.low));
  add_atomically(to.high + channel, static_cast<int64_t>(part.squares.high));
  if (!to.extremes) return;
  atomicMax(to.most + channel, part.most);
  atomicMax(to.least + channel, part.least);
}

// Once the block has added all its parts: the last of the `blocks` that have channels [first, end) makes moments of
// them, and leaves zeros. All threads of the block come here. tile: the channels' number among the tickets. Values are
// sums * factor_of(channel).
template <class FactorOf>
__device__ __forceinline__ void finish_totals(const ExactTotals& of, int tile, int blocks, int first, int end,
                                              int64_t pixels, const FactorOf& factor_of) {
  if (!last_to_arrive(of.tickets + tile, static_cast<unsigned>(blocks))) return;
  for (int c = first + static_cast<int>(threadIdx.x); c < end; c += static_cast<int>(blockDim.x)) {
    const float factor = factor_of(c);
    const SquareSum squares{static_cast<uint64_t>(of.low[c]), static_cast<uint64_t>(of.high[c])};
    exact_moments(pixels, of.sum[c], squares, factor, &of.moments.mean[c], &of.moments.variance[c]);
    of.sum[c] = of.low[c] = of.high[c] = 0;
    if (of.norm.a != nullptr) {
      const AffineCoefficients own = affine_coefficients(of.norm.problem, of.moments, of.norm.parameters, c);
      of.norm.a[c] = own.a;
      of.norm.b[c] = own.b;
    }
    if (!of.extremes) continue;
    const auto value = [&](int32_t sum) { return static_cast<float>(sum) * factor; };
    if (of.moments.min != nullptr) of.moments.min[c] = value(-ChannelSums::lowered(of.least[c]));
    if (of.moments.max != nullptr) of.moments.max[c] = value(ChannelSums::lowered(of.most[c]));
    of.most[c] = of.least[c] = 0;
  }
}

}  // namespace octet::cuda
