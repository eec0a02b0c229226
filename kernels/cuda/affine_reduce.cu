// The sums of the norm's backward pass, cut and added as shared/sums.h defines, and what follows from them. The CPU's
// passes take subnormal numbers for zero, but not what it computes once for each channel: hence sum_flushed().
#include "kernels/cuda/affine.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/norm_sums.h"
#include "kernels/cuda/values.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32;

__global__ void gradients_without_sums(const __grid_constant__ AffineGradients to) {
  const int64_t channel = thread_index();
  if (channel < to.of.problem.shape.c) write_gradient(to, channel, 0, 0);
}

// A block takes one group of chunks, for as many neighbours as four lanes hold. A warp takes chunk after chunk.
template <int width, class Numbers>
__global__ void __launch_bounds__(threads, 2)
    reduce(const __grid_constant__ Numbers numbers, int64_t pixels, int groups, double* of_groups, unsigned* tickets,
           const __grid_constant__ AffineGradients to) {
  constexpr Width<width> some;
  constexpr int tile = 4 * width, every = static_cast<int>(norm_sums), chunks = static_cast<int>(norm_chunks);
  __shared__ float of_chunks[chunks][2][tile];
  const Block block(groups);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int first_channel = block.outer * tile, channels = numbers.channels, own = lane % 4 * width;
  for (int chunk = warp; chunk < chunks; chunk += warps) {
    const int64_t first = (static_cast<int64_t>(block.inner) * chunks + chunk) * norm_pixels + lane / 4;
    NormPart<width> part;
    if (first_channel + own < channels)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        typename Numbers::template Fetched<width> fetched[4] = {};
#pragma unroll
        for (int k = 0; k < 4; ++k) {  // asked for together
          const int64_t pixel = first + (4 * half + k) * every;
          if (pixel < pixels) fetched[k] = numbers.fetch(some, pixel * channels + first_channel + own);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (first + (4 * half + k) * every >= pixels) continue;
          part.add(numbers.gradient(some, fetched[k]), numbers.number(some, fetched[k]));
        }
      }
    const float of_sum = over_lanes(part.sum, lane), of_dot = over_lanes(part.dot, lane);
    if (width == 8 || lane / 4 % (width == 2 ? 4 : 8) == 0) {
      of_chunks[chunk][0][own + own_neighbour<width>(lane)] = of_sum;
      of_chunks[chunk][1][own + own_neighbour<width>(lane)] = of_dot;
    }
  }
  __syncthreads();
  const int which = thread / tile;
  double sum = 0;
  if (which < 2)
#pragma unroll 8
    for (int chunk = 0; chunk < chunks; ++chunk) sum += static_cast<double>(of_chunks[chunk][which][thread % tile]);
  finish_groups(sum, which, first_channel + thread % tile, block.inner, groups, block.outer, of_groups, tickets, to);
}

}  // namespace

void launch_affine_gradients(const AffineGradients& to, Stream stream) {
  OCTET_LAUNCH_EACH(gradients_without_sums, to.of.problem.shape.c, 64, stream, to);
}

void launch_affine_reduce(const AffineBackwardValues& values, int64_t pixels, double* of_groups, unsigned* tickets,
                          const AffineGradients& to, Stream stream) {
  const int groups = static_cast<int>(norm_groups_of(pixels));
  with_types<true, false>(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const auto launch = [&]<int width>(Width<width>) {
      OCTET_LAUNCH((reduce<width, Numbers>), grid_of(groups, blocks_for(values.channels, 4 * width)), dim3(threads),
                   stream, numbers, pixels, groups, of_groups, tickets, to);
    };
    if (numbers.fits(8))
      launch(Width<8>{});
    else if (numbers.fits(2))
      launch(Width<2>{});
    else
      launch(Width<1>{});
  });
}

}  // namespace octet::cuda
