// Convolutions of codes on tensor cores: one contraction, D[m][n] = sum over k of A[m][k] B[n][k], with both operands'
// k contiguous in pieces of 16 bytes. What A and B are is in Operands: gathered pixels and weights (forward, data
// gradient), or channel-major errors and inputs (weight gradient). Sums are exact int32.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int tile_m = 128, tile_n = 64, tile_k = 64;  // k in bytes
constexpr int stages = 3, threads = 128;               // four warps, each 64 x 32 of the tile
constexpr int row_pieces = tile_k / 16;
constexpr int stage_bytes = (tile_m + tile_n) * tile_k;
constexpr int value_pitch = tile_n + 8;  // floats between rows of the finished tile
static_assert(tile_m * value_pitch * 4 <= stages * stage_bytes);

// Eight rows that one matrix load reads lie in eight different groups of banks.
__device__ __forceinline__ int swizzled(int row, int piece) { return row * tile_k + ((piece ^ ((row >> 1) & 3)) << 4); }

struct GatherOperands {
  Gather g;
  const int8_t *from, *weights;
  int lane_bytes, tap_bytes;
  int pixel_pieces;  // 16-byte pieces of one input pixel
  int pieces;        // of the whole contraction

  struct Piece {
    int shift_h, shift_w, from_offset, weight_offset;
    bool inside;
  };
  struct ARow {
    int64_t image;  // byte offset
    int top, left;
    bool inside;
  };
  struct BRow {
    int64_t offset;
    bool inside;
  };
  __device__ __forceinline__ Piece piece(int q) const {
    if (q >= pieces) return {0, 0, 0, 0, false};
    const int tap = q / pixel_pieces, channel = (q - tap * pixel_pieces) * 16;
    const int h = tap / g.w.taps, w = tap - h * g.w.taps;
    return {g.h.shift[h], g.w.shift[w], channel, (g.h.kernel[h] * g.kernel_w + g.w.kernel[w]) * tap_bytes + channel,
            true};
  }
  __device__ __forceinline__ ARow a_row(int m) const {
    const Pixel pixel = pixel_of(g, m / chunk_pixels, m % chunk_pixels);
    return {static_cast<int64_t>(pixel.image) * g.h.from * g.w.from * pixel_pieces * 16, pixel.i * g.h.from_step,
            pixel.j * g.w.from_step, pixel.inside};
  }
  __device__ __forceinline__ BRow b_row(int n) const {
    return {static_cast<int64_t>(n) * lane_bytes, n < g.to_channels};
  }
  __device__ __forceinline__ const int8_t* a(const ARow& row, const Piece& piece, bool& inside) const {
    const int h = row.top + piece.shift_h, w = row.left + piece.shift_w;
    inside = row.inside && piece.inside && h >= 0 && h < g.h.from && w >= 0 && w < g.w.from;
    return inside ? from + row.image + static_cast<int64_t>(h * g.w.from + w) * (pixel_pieces * 16) + piece.from_offset
                  : from;
  }
  __device__ __forceinline__ const int8_t* b(const BRow& row, const Piece& piece, bool& inside) const {
    inside = row.inside && piece.inside;
    return inside ? weights + row.offset + piece.weight_offset : weights;
  }
};

struct WeightOperands {
  WeightGather g;
  const int8_t *x, *dy;
  int image_pieces;  // 16-byte pieces of one pixel's images
  int pieces;        // of the whole contraction
  int outputs;       // taps * input channels

  struct Piece {
    int q, top, left, image;
    bool inside;
  };
  struct ARow {
    int64_t offset;
    bool inside;
  };
  struct BRow {
    int64_t plane;
    int shift_h, shift_w;
    bool inside;
  };
  __device__ __forceinline__ Piece piece(int q) const {
    const int pixel = q / image_pieces, h = pixel / g.y_w, w = pixel - h * g.y_w;
    return {q, h * g.stride_h, w * g.stride_w, (q - pixel * image_pieces) * 16, q < pieces};
  }
  __device__ __forceinline__ ARow a_row(int m) const {
    return {static_cast<int64_t>(m) * pieces * 16, m < g.y_channels};
  }
  __device__ __forceinline__ BRow b_row(int n) const {
    const int tap = n / g.x_channels, channel = n - tap * g.x_channels;
    const int h = tap / g.kernel_w, w = tap - h * g.kernel_w;
    return {static_cast<int64_t>(channel) * g.x_h * g.x_w * image_pieces * 16, h * g.dilation_h - g.pad_h,
            w * g.dilation_w - g.pad_w, n < outputs};
  }
  __device__ __forceinline__ const int8_t* a(const ARow& row, const Piece& piece, bool& inside) const {
    inside = row.inside && piece.inside;
    return inside ? dy + row.offset + static_cast<int64_t>(piece.q) * 16 : dy;
  }
  __device__ __forceinline__ const int8_t* b(const BRow& row, const Piece& piece, bool& inside) const {
    const int h = piece.top + row.shift_h, w = piece.left + row.shift_w;
    inside = row.inside && piece.inside && h >= 0 && h < g.x_h && w >= 0 && w < g.x_w;
    return inside ? x + row.plane + static_cast<int64_t>(h * g.x_w + w) * (image_pieces * 16) + piece.image : x;
  }
};

struct Sums {  // of one thread: 4 x 4 blocks of 16 x 8
  int32_t at[4][4][4] = {};
};

// The contraction over pieces [first, end) of one tile, first row and column given.
template <class Operands>
__device__ __forceinline__ void contract(const Operands& operands, int first_m, int first_n, int first, int end,
                                         int8_t* shared, Sums& sums) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int column = thread % row_pieces, row = thread / row_pieces;  // of what this thread copies
  constexpr int rows = threads / row_pieces;
  typename Operands::ARow a_rows[tile_m / rows];
  typename Operands::BRow b_rows[tile_n / rows];
#pragma unroll
  for (int i = 0; i < tile_m / rows; ++i) a_rows[i] = operands.a_row(first_m + row + i * rows);
#pragma unroll
  for (int i = 0; i < tile_n / rows; ++i) b_rows[i] = operands.b_row(first_n + row + i * rows);
  const int steps = (end - first + row_pieces - 1) / row_pieces;

  const auto fetch = [&](int step) {
    if (step < steps) {
      int8_t* const a = shared + step % stages * stage_bytes;
      int8_t* const b = a + tile_m * tile_k;
      const int q = first + step * row_pieces + column;
      typename Operands::Piece piece = operands.piece(q);
      piece.inside = piece.inside && q < end;
#pragma unroll
      for (int i = 0; i < tile_m / rows; ++i) {
        bool inside;
        const int8_t* const from = operands.a(a_rows[i], piece, inside);
        copy_async(a + swizzled(row + i * rows, column), from, inside);
      }
#pragma unroll
      for (int i = 0; i < tile_n / rows; ++i) {
        bool inside;
        const int8_t* const from = operands.b(b_rows[i], piece, inside);
        copy_async(b + swizzled(row + i * rows, column), from, inside);
      }
    }
    commit_copies();
  };

#pragma unroll
  for (int step = 0; step < stages - 1; ++step) fetch(step);
  const int warp_m = warp / 2 * 64, warp_n = warp % 2 * 32;
  for (int step = 0; step < steps; ++step) {
    wait_copies<stages - 2>();
    __syncthreads();
    fetch(step + stages - 1);
    const int8_t* const a = shared + step % stages * stage_bytes;
    const int8_t* const b = a + tile_m * tile_k;
#pragma unroll
    for (int half = 0; half < tile_k / 32; ++half) {
      uint32_t a_block[4][4], b_block[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i)  // rows 0-7 and 8-15 of the first 16 bytes, then of the next
        load_matrices(a_block[i], a + swizzled(warp_m + i * 16 + lane % 16, half * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; ++j)  // columns 0-7 in two pieces, then 8-15
        load_matrices(b_block[j], b + swizzled(warp_n + j * 16 + lane % 8 + lane / 16 * 8, half * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          multiply_add(sums.at[i][j], a_block[i], b_block[j / 2][j % 2 * 2], b_block[j / 2][j % 2 * 2 + 1]);
    }
  }
  wait_copies<0>();
  __syncthreads();
}

// visit(row, column, sum) for this thread's sums, rows and columns of the tile.
template <class Visit>
__device__ __forceinline__ void for_each_sum(const Sums& sums, const Visit& visit) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        visit(warp / 2 * 64 + i * 16 + lane / 4 + e / 2 * 8, warp % 2 * 32 + j * 8 + lane % 4 * 2 + e % 2,
              sums.at[i][j][e]);
}

__global__ void __launch_bounds__(threads)
    gather_kernel(const __grid_constant__ GatherOperands operands, const __grid_constant__ Output output) {
  alignas(128) __shared__ int8_t shared[stages * stage_bytes];
  const Gather& g = operands.g;
  const int first_m = static_cast<int>(blockIdx.x) * tile_m, first_n = static_cast<int>(blockIdx.y) * tile_n;
  Sums sums;
  contract(operands, first_m, first_n, 0, operands.pieces, shared, sums);

  float* const values = reinterpret_cast<float*>(shared);
  const float scale = *output.scale;
  for_each_sum(sums, [&](int row, int column, int32_t sum) {
    const int n = first_n + column;
    const float factor = scale * output.weight_scale[output.per_channel && n < g.to_channels ? n : 0];
    values[row * value_pitch + column] = static_cast<float>(sum) * factor;
  });
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x), column = thread % tile_n, n = first_n + column;
  if (n >= g.to_channels) return;
  constexpr int together = threads / tile_n;  // rows, and chunks: a tile has two
  static_assert(together == tile_m / chunk_pixels);
  const int chunk = first_m / chunk_pixels + thread / tile_n;
  if (output.moments != nullptr && chunk < g.chunks) {
    const float* const at = values + thread / tile_n * chunk_pixels * value_pitch + column;
    write_chunk_moments(g, chunk, n, output.moments, [&](int row) { return at[row * value_pitch]; });
  }
  for (int row = thread / tile_n; row < tile_m; row += together) {
    const Pixel pixel = pixel_of(g, (first_m + row) / chunk_pixels, row % chunk_pixels);
    if (!pixel.inside) continue;
    write_real(output.to, output.bf16, output.add, output_offset(g, pixel) + n, values[row * value_pitch + column]);
  }
}

__global__ void __launch_bounds__(threads)
    weight_kernel(const __grid_constant__ WeightOperands operands, int split_pieces, int32_t* partial) {
  alignas(128) __shared__ int8_t shared[stages * stage_bytes];
  const int first_m = static_cast<int>(blockIdx.x) * tile_m, first_n = static_cast<int>(blockIdx.y) * tile_n;
  const int first = static_cast<int>(blockIdx.z) * split_pieces;
  const int end = first + split_pieces < operands.pieces ? first + split_pieces : operands.pieces;
  Sums sums;
  contract(operands, first_m, first_n, first, end, shared, sums);
  int32_t* const to = partial + static_cast<int64_t>(blockIdx.z) * operands.g.y_channels * operands.outputs;
  for_each_sum(sums, [&](int row, int column, int32_t sum) {
    const int m = first_m + row, n = first_n + column;
    if (m < operands.g.y_channels && n < operands.outputs) to[static_cast<int64_t>(m) * operands.outputs + n] = sum;
  });
}

}  // namespace

void launch_tensor_gather(const Gather& g, const int8_t* from, const int8_t* weights, int lane_bytes, int tap_bytes,
                          const Output& output, Stream stream) {
  const int pixel_pieces = (g.from_channels + 15) / 16;
  const GatherOperands operands{
      g, from, weights, lane_bytes, tap_bytes, pixel_pieces, g.h.taps * g.w.taps * pixel_pieces};
  const dim3 grid(blocks_for(int64_t{g.chunks} * chunk_pixels, tile_m), blocks_for(g.to_channels, tile_n));
  OCTET_LAUNCH(gather_kernel, grid, dim3(threads), stream, operands, output);
}

void launch_tensor_weight(const WeightGather& g, const int8_t* x, const int8_t* dy, int splits, int32_t* partial,
                          Stream stream) {
  const int image_pieces = (g.images + 15) / 16, pieces = g.y_h * g.y_w * image_pieces;
  const int outputs = g.kernel_h * g.kernel_w * g.x_channels;
  const WeightOperands operands{g, x, dy, image_pieces, pieces, outputs};
  const dim3 grid(blocks_for(g.y_channels, tile_m), blocks_for(outputs, tile_n), static_cast<unsigned>(splits));
  OCTET_LAUNCH(weight_kernel, grid, dim3(threads), stream, operands, (pieces + splits - 1) / splits, partial);
}

}  // namespace octet::cuda
