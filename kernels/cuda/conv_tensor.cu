// Convolutions of codes on tensor cores, forward and data gradient. tensor_operands.h says what is multiplied: gathered
// pixels and weights. tensor_tile.h multiplies.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int64_t no_output = -1;

// Writes one chunk of a finished tile, `width` neighbours at once. columns: those that exist.
template <int tile_n, int width>
__device__ __forceinline__ void write_values(const Output& output, const float* values, const int64_t* offsets,
                                             int columns) {
  using T = Tile<tile_n>;
  constexpr int pieces = tile_n / width;
  const int thread = static_cast<int>(threadIdx.x), column = thread % pieces * width;
  if (column >= columns) return;
#pragma unroll 4
  for (int row = thread / pieces; row < chunk_pixels; row += T::threads / pieces)
    if (offsets[row] != no_output)
      write_reals(Width<width>{}, output.to, offsets[row] + column,
                  reread_some(Width<width>{}, values + row * T::value_pitch + column));
}

// together: how many neighbouring outputs may be written at once, 8 or 1.
template <int tile_n, class From>
__global__ void __launch_bounds__(Tile<tile_n>::threads, tile_n == 64 ? blocks_of_128 : blocks_of_256)
    gather_kernel(const __grid_constant__ GatherOperands<From> operands, const __grid_constant__ Output output,
                  int together) {
  using T = Tile<tile_n>;
  alignas(128) __shared__ int8_t shared[T::bytes];
  const Gather& g = operands.g;
  // Neighbouring blocks share their pixels, so that the second-level cache reads them once; it holds all weights.
  const Block block(blocks_for(g.to_channels, tile_n));
  const int first_m = block.outer * tile_m, first_n = block.inner * tile_n;
  Sums sums;
  contract<tile_n>(operands, first_m, first_n, 0, operands.pieces, shared, sums);

  float* const values = reinterpret_cast<float*>(shared);
  int64_t* const offsets = reinterpret_cast<int64_t*>(shared + T::value_bytes);  // of the tile's rows
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < tile_m) {
    const Pixel pixel = pixel_of(g, first_m / chunk_pixels + thread / chunk_pixels, thread % chunk_pixels);
    offsets[thread] = pixel.inside ? output_offset(g, pixel) + first_n : no_output;
  }
  const Part<tile_n> part;
  const float factor = *output.scale * *output.weight_scale;
  const int columns = g.to_channels - first_n < tile_n ? g.to_channels - first_n : tile_n;
  for (int half = 0; half < tile_m / chunk_pixels; ++half) {
    if (part.m == half * chunk_pixels)
      for_each_pair<tile_n>(sums, [&](int row, int column, int32_t first, int32_t second) {
        *reinterpret_cast<Values<2>*>(values + (row - part.m) * T::value_pitch + column) = {
            static_cast<float>(first) * factor, static_cast<float>(second) * factor};
      });
    __syncthreads();
    const int chunk = first_m / chunk_pixels + half;
    const int column = thread % tile_n;
    static_assert(T::threads == 2 * tile_n);
    if (output.moments != nullptr && chunk < g.chunks && column < columns)
      write_chunk_moments<2>(g, chunk, first_n + column, thread / tile_n, output.moments,
                             [&](int row) { return values[row * T::value_pitch + column]; });
    const int64_t* const rows = offsets + half * chunk_pixels;
    if (together == 8)
      write_values<tile_n, 8>(output, values, rows, columns);
    else
      write_values<tile_n, 1>(output, values, rows, columns);
    __syncthreads();
  }
}

template <class From>
void launch_gather(const GatherOperands<From>& operands, const Output& output, Stream stream) {
  const Gather& g = operands.g;
  const int together = g.to_channels % 8 == 0 && neighbours_align(8, output.to) ? 8 : 1;
  const auto grid = [&](int tile_n) {
    return grid_of(blocks_for(g.to_channels, tile_n), blocks_for(int64_t{g.chunks} * chunk_pixels, tile_m));
  };
  if (wide_tiles(g.to_channels))
    OCTET_LAUNCH((gather_kernel<128, From>), grid(128), dim3(Tile<128>::threads), stream, operands, output, together);
  else
    OCTET_LAUNCH((gather_kernel<64, From>), grid(64), dim3(Tile<64>::threads), stream, operands, output, together);
}

}  // namespace

void launch_tensor_gather(const Gather& g, const int8_t* from, DType type, const int8_t* weights, int lane_bytes,
                          int tap_bytes, const Output& output, Stream stream) {
  const int pixel_pieces = (g.from_channels + 15) / 16, pieces = g.h.taps * g.w.taps * pixel_pieces;
  const auto launch = [&]<class From>(From) {
    launch_gather(GatherOperands<From>{g, from, weights, lane_bytes, tap_bytes, pixel_pieces, pieces}, output, stream);
  };
  type == DType::u8 ? launch(uint8_t{}) : launch(int8_t{});
}

}  // namespace octet::cuda
