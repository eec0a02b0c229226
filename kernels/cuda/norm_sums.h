// Sums of the norm's backward pass, cut and added as shared/sums.h defines, and what follows from them. For .cu files.
// The CPU's passes take subnormal numbers for zero, but not what it computes once for each channel: hence
// sum_flushed().
#pragma once
#include "kernels/cuda/store.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {

// What a lane has of some neighbouring channels: the sums over every eighth pixel of a chunk.
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

__device__ __forceinline__ void write_gradient(const AffineGradients& to, int64_t channel, double sum_dz,
                                               double sum_dz_number) {
  const auto& [problem, moments, parameters, scale, offset] = to.of;
  const InputUnit unit = scale != nullptr ? InputUnit{scale[channel], offset[channel]} : InputUnit{};
  const double normalized = normalized_sum(problem, moments, channel, unit, sum_dz, sum_dz_number);
  const AffineGradient own = affine_gradient(problem, moments, parameters, channel, sum_dz, normalized, unit);
  to.A[channel] = own.A;
  to.B[channel] = own.B;
  to.C[channel] = own.C;
  if (to.d_gamma.data != nullptr) write_real(to.d_gamma, channel, static_cast<float>(normalized));
  if (to.d_beta.data != nullptr) write_real(to.d_beta, channel, static_cast<float>(sum_dz));
}

// Keeps what this block has summed. The last block of the tile to come here adds all groups' sums and writes what
// follows from them. which, channel: what this thread has summed, if there is such a channel.
__device__ __forceinline__ void finish_groups(double sum, int which, int channel, int group, int groups, int tile,
                                              double* of_groups, unsigned* tickets, const AffineGradients& to) {
  const int channels = static_cast<int>(to.of.problem.shape.c);
  if (which < 2 && channel < channels) of_groups[(static_cast<int64_t>(group) * 2 + which) * channels + channel] = sum;
  if (!last_to_arrive(tickets + tile, static_cast<unsigned>(groups))) return;
  if (which > 0 || channel >= channels) return;
  double sum_dz = 0, sum_dz_number = 0;
#pragma unroll 8
  for (int64_t i = 0; i < groups; ++i) {
    sum_dz += of_groups[i * 2 * channels + channel];
    sum_dz_number += of_groups[(i * 2 + 1) * channels + channel];
  }
  write_gradient(to, channel, sum_dz, sum_dz_number);
}

}  // namespace octet::cuda
