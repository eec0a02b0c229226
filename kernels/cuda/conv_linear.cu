// Forward and data gradient of real-valued layers that are one product of matrices: linear layers and 1x1 convolutions.
// Each sum adds its products in the order of the CPU's kernels (fold_products of shared/sums.h).
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, tile = 32, run = static_cast<int>(fold_products);

// A block computes 32 x 32 outputs from runs of 64 products in shared memory, a thread two rows of two columns.
// to[m][n] = sum over k of a[m][k] b[k][n]
__global__ void __launch_bounds__(threads) matrix_product(const float* a, const float* b, int rows, int columns,
                                                          int products, const __grid_constant__ RealOutput to) {
  __shared__ float of_a[tile][run + 1];  // one more, so that rows begin in different banks
  alignas(16) __shared__ float of_b[run][tile];
  const Block block(blocks_for(columns, tile));
  const int first_row = block.outer * tile, first_column = block.inner * tile;
  const int thread = static_cast<int>(threadIdx.x), row = thread / 16 * 2, column = thread % 16 * 2;
  float part[4] = {}, folded[4] = {};
  for (int first = 0; first < products; first += run) {
    const int length = products - first < run ? products - first : run;
#pragma unroll
    for (int i = thread; i < tile * run; i += threads) {
      const int m = first_row + i / run, k = i % run;
      of_a[i / run][k] = m < rows && k < length ? a[static_cast<int64_t>(m) * products + first + k] : 0.0f;
      const int n = first_column + i % tile, own = i / tile;
      of_b[own][i % tile] = n < columns && own < length ? b[static_cast<int64_t>(first + own) * columns + n] : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < length; ++k) {
      const float own_a[2] = {of_a[row][k], of_a[row + 1][k]};
      const Values<2> own_b = *reinterpret_cast<const Values<2>*>(&of_b[k][column]);
#pragma unroll
      for (int i = 0; i < 4; ++i) part[i] += own_a[i / 2] * own_b.at[i % 2];
    }
    if (length == run)
#pragma unroll
      for (int i = 0; i < 4; ++i) folded[i] += part[i], part[i] = 0;
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = first_row + row + i / 2, n = first_column + column + i % 2;
    if (m < rows && n < columns) write_real(to, static_cast<int64_t>(m) * columns + n, folded[i] + part[i]);
  }
}

}  // namespace

bool is_matrix_product(const Gather& g, const Output& output) {
  const auto alone = [](const Axis& axis) {
    return axis.taps == 1 && axis.shift[0] == 0 && axis.from_step == 1 && axis.step == 1 && axis.count == axis.to &&
           axis.from == axis.to;
  };
  return alone(g.h) && alone(g.w) && g.group_from == g.from_channels && g.lane_step == 1 &&
         g.channel_step == g.to_channels && !measures(output);
}

void launch_matrix_product(const Gather& g, const float* from, const float* weights, const Output& output,
                           Stream stream) {
  OCTET_LAUNCH(matrix_product, grid_of(blocks_for(g.to_channels, tile), blocks_for(g.pixels, tile)), dim3(threads),
               stream, from, weights, g.pixels, g.to_channels, g.from_channels, output.to);
}

}  // namespace octet::cuda
