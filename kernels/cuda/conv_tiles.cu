// Convolutions of codes on tensor cores by blocks that stay on their processors and take tile after tile of the same
// output channels: the copies of the next tile run while one is finished. A lane holds eight neighbouring channels of a
// row, so that results go from registers to memory. tensor_operands.h says what is multiplied.
#include <algorithm>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

// Byte of a piece of B in a stage. A matrix load reads rows 8 apart, which lie in different groups of banks.
__device__ __forceinline__ int apart(int row, int piece) { return row * tile_k + ((piece ^ ((row >> 3) & 3)) << 4); }

// The pipeline of one thread's copies, from tile to tile.
template <int tile_n, class From>
struct TileCopies {
  using T = Tile<tile_n>;
  using Cursor = typename GatherOperands<From>::template Cursor<T::a_rows, T::b_rows>;
  const GatherOperands<From>& o;
  const int tiles_m, every, steps, first_n;
  int tile, left, filled = 0;  // the tile, its steps that are not begun, and the stage that the next copies fill
  int8_t* const shared;
  Cursor cursor;

  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x) % row_pieces; }
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / row_pieces; }
  __device__ __forceinline__ TileCopies(const GatherOperands<From>& operands, int count, int first, int between,
                                        int column_tile, int8_t* stages_of_block)
      : o(operands),
        tiles_m(count),
        every(between),
        steps((operands.pieces + row_pieces - 1) / row_pieces),
        first_n(column_tile * tile_n),
        tile(first),
        left(steps),
        shared(stages_of_block),
        cursor(begin()) {}
  __device__ __forceinline__ Cursor begin() const {
    return Cursor(o, tile * tile_m + row(), first_n + row(), T::rows, column(), o.pieces);
  }
  __device__ __forceinline__ void fetch() {
    if (tile < tiles_m && steps > 0) {
      int8_t* const a = shared + filled * T::stage_bytes + swizzled(row(), column());
      int8_t* const b = shared + filled * T::stage_bytes + tile_m * tile_k + apart(row(), column());
      const bool exists = cursor.left > 0;
      static_assert(T::rows % 32 == 0);  // the rows that one thread copies are placed alike
#pragma unroll
      for (int i = 0; i < T::a_rows; ++i)
        copy_async(a + i * T::rows * tile_k, cursor.a[i], exists && (cursor.a_inside >> i & 1) != 0);
#pragma unroll
      for (int i = 0; i < T::b_rows; ++i)
        copy_async(b + i * T::rows * tile_k, cursor.b[i], exists && (cursor.b_inside >> i & 1) != 0);
      filled = filled + 1 == stages ? 0 : filled + 1;
      if (--left == 0) {
        tile += every;
        left = steps;
        if (tile < tiles_m) cursor = begin();
      } else {
        cursor.next(o);
      }
    }
    commit_copies();
  }
};

// Adds the products of one stage. Column 2 t + e of block j of the warp is channel 8 t + 2 j + e, so that a lane, which
// holds columns 2 t and 2 t + 1 of all blocks, has eight neighbours.
template <int tile_n, class From>
__device__ __forceinline__ void multiply_apart(const int8_t* a, const Part<tile_n>& part, int lane, Sums& sums) {
  const int b_row = part.n + lane % 8 / 2 * 8 + lane / 16 * 2 + lane % 2;
  multiply_rows<From, int8_t, 4, apart>(a, part.m, b_row, lane, sums);
}

// What a kernel knows of its outputs when it is compiled.
enum class Outputs : uint8_t {
  replaced_list,  // bf16 that are not added to, neighbours in memory as they are in the gather
  list,           // of any type
  scattered,      // the pixels of one phase of a stride
};

// Element 0 of an output pixel.
template <Outputs outputs>
__device__ __forceinline__ int64_t row_offset(const Gather& g, int row) {
  if constexpr (outputs == Outputs::scattered)
    return output_offset(g, pixel_of(g, row / chunk_pixels, row % chunk_pixels));
  else
    return static_cast<int64_t>(row) * g.to_channels;
}

// Writes the lane's sums: eight rows, 16 i + 8 half below the first, of eight neighbouring channels.
template <Outputs outputs>
__device__ __forceinline__ void write_rows(const Gather& g, const Output& output, float factor, int first_row,
                                           int channel, const Sums& sums) {
  if (channel >= g.to_channels) return;
  const RealOutput to = outputs == Outputs::replaced_list ? RealOutput{output.to.data, true, false} : output.to;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * i + 8 * half;
      if (row >= g.pixels) continue;
      Values<8> eight;
#pragma unroll
      for (int e = 0; e < 8; ++e) eight.at[e] = static_cast<float>(sums.at[i][e / 2][2 * half + e % 2]) * factor;
      write_reals(Width<8>{}, to, row_offset<outputs>(g, row) + channel, eight);
    }
}

template <int tile_n, Outputs outputs, class From>
__global__ void __launch_bounds__(Tile<tile_n>::threads, tile_n == 64 ? blocks_of_128 : blocks_of_256)
    gather_tiles(const __grid_constant__ GatherOperands<From> o, const __grid_constant__ Output output, int tiles_n) {
  using T = Tile<tile_n>;
  alignas(128) __shared__ int8_t shared[T::bytes];
  // Neighbouring blocks share their pixels, so that the second-level cache reads them once; it holds all weights.
  const int own = static_cast<int>(blockIdx.x), first_m = own / tiles_n, every = static_cast<int>(gridDim.x) / tiles_n;
  const int tiles_m = (o.g.pixels + tile_m - 1) / tile_m;
  TileCopies<tile_n, From> copies(o, tiles_m, first_m, every, own % tiles_n, shared);
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) copies.fetch();
  const Part<tile_n> part;
  const int lane = static_cast<int>(threadIdx.x) % 32, channel = copies.first_n + part.n + lane % 4 * 8;
  const float factor = *output.scale * *output.weight_scale;
  int stage = 0;
  for (int tile = first_m; tile < tiles_m; tile += every) {
    Sums sums;
    for (int step = 0; step < copies.steps; ++step) {
      wait_copies<stages - 2>();
      __syncthreads();
      copies.fetch();
      multiply_apart<tile_n, From>(shared + stage * T::stage_bytes, part, lane, sums);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    write_rows<outputs>(o.g, output, factor, tile * tile_m + part.m + lane / 4, channel, sums);
  }
  wait_copies<0>();
}

bool is_list(const Gather& g) {
  const auto whole = [](const Axis& axis) { return axis.first == 0 && axis.step == 1 && axis.count == axis.to; };
  return whole(g.h) && whole(g.w);
}

}  // namespace

bool tiles_fit(const Gather& g, const Output& output) {
  return g.to_channels % 8 == 0 && neighbours_align(8, output.to) && g.item_pixels == g.pixels &&
         output.moments == nullptr;
}

void launch_gather_tiles(const Gather& g, const int8_t* from, DType type, const int8_t* weights, int lane_bytes,
                         int tap_bytes, const Output& output, int processors, Stream stream) {
  const int pixel_pieces = (g.from_channels + 15) / 16, pieces = g.h.taps * g.w.taps * pixel_pieces;
  const auto launch = [&]<int tile_n, Outputs outputs, class From>(Tile<tile_n>,
                                                                   std::integral_constant<Outputs, outputs>, From) {
    const GatherOperands<From> operands{g, from, weights, lane_bytes, tap_bytes, pixel_pieces, pieces};
    const int tiles_n = static_cast<int>(blocks_for(g.to_channels, tile_n));
    const int staying = processors * (tile_n == 64 ? blocks_of_128 : blocks_of_256) / tiles_n;
    const int tiles_m = static_cast<int>(blocks_for(g.pixels, tile_m));
    OCTET_LAUNCH((gather_tiles<tile_n, outputs, From>), grid_of(tiles_n, std::max(1, std::min(staying, tiles_m))),
                 dim3(Tile<tile_n>::threads), stream, operands, output, tiles_n);
  };
  const auto with_type = [&](auto tile, auto outputs) {
    type == DType::u8 ? launch(tile, outputs, uint8_t{}) : launch(tile, outputs, int8_t{});
  };
  const auto with_outputs = [&](auto tile) {
    if (!is_list(g))
      with_type(tile, std::integral_constant<Outputs, Outputs::scattered>{});
    else if (output.to.bf16 && !output.to.add)
      with_type(tile, std::integral_constant<Outputs, Outputs::replaced_list>{});
    else
      with_type(tile, std::integral_constant<Outputs, Outputs::list>{});
  };
  wide_tiles(g.to_channels) ? with_outputs(Tile<128>{}) : with_outputs(Tile<64>{});
}

}  // namespace octet::cuda
