// Convolutions of codes on tensor cores, forward and data gradient, by blocks that stay on their processors and take
// tile after tile of the same output channels: the copies of the next tile run while one is finished. A lane holds
// eight neighbouring channels of a row, so that results go from registers to memory. tensor_operands.h says what is
// multiplied.
#include <algorithm>
#include <span>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/tile_outputs.h"

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

  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % row_pieces); }
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x / row_pieces); }
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

// Blocks that a processor should hold at once.
template <int tile_n, Outputs outputs>
inline constexpr int blocks_on = outputs == Outputs::any&& tile_n == 128 ? 1
                                 : tile_n == 64                          ? blocks_of_128
                                                                         : blocks_of_256;

// What one launch computes: all phases of a stride of 2, or one convolution.
template <Outputs outputs>
inline constexpr int most_phases = outputs == Outputs::scattered ? 4 : 1;
template <Outputs outputs, class From>
struct Phases {
  GatherOperands<From> at[most_phases<outputs>];
};

// blocks: of each phase.
template <int tile_n, Outputs outputs, class From>
__global__ void __launch_bounds__(Tile<tile_n>::threads, (blocks_on<tile_n, outputs>))
    gather_tiles(const __grid_constant__ Phases<outputs, From> phases, const __grid_constant__ Output output,
                 int tiles_n, int blocks) {
  using T = Tile<tile_n>;
  alignas(128) __shared__ int8_t shared[T::bytes];
  const int block = static_cast<int>(blockIdx.x), phase = most_phases<outputs> == 1 ? 0 : block / blocks;
  const GatherOperands<From>& o = phases.at[phase];
  // Neighbouring blocks share their pixels, so that the second-level cache reads them once; it holds all weights.
  const int own = block - phase * blocks, first_m = own / tiles_n, every = blocks / tiles_n;
  const int tiles_m = (o.g.pixels + tile_m - 1) / tile_m;
  TileCopies<tile_n, From> copies(o, tiles_m, first_m, every, own % tiles_n, shared);
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) copies.fetch();
  const Part<tile_n> part;
  const int lane = static_cast<int>(threadIdx.x % 32), channel = copies.first_n + part.n + lane % 4 * 8;
  float factor = 1;
  if constexpr (outputs != Outputs::digits) factor = *output.scale * *output.weight_scale;
  ChannelSums measured;
  PixelSums of_pixels;
  GroupsOfTiles<tile_n> groups{output.norm, o.g.pixels, tiles_m, own % tiles_n, tiles_n, first_m, every};
  int stage = 0;
  int tile = first_m;
  for (; tile < tiles_m; tile += every) {
    Sums sums;
    for (int step = 0; step < copies.steps; ++step) {
      wait_copies<stages - 2>();
      __syncthreads();
      copies.fetch();
      multiply_apart<tile_n, From>(shared + stage * T::stage_bytes, part, lane, sums);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    if constexpr (outputs == Outputs::summed_list) groups.broadcast_last();
    const int first_row = tile * tile_m + part.m + lane / 4;
    if constexpr (outputs == Outputs::digits)
      write_pixels(o.g, output, first_row, channel / 4, sums, of_pixels);
    else if constexpr (outputs == Outputs::summed_list)
      groups.next(tile, [&] { write_and_sum(o.g, output, factor, first_row, channel, lane, sums); });
    else
      write_rows<outputs>(o.g, output, factor, first_row, channel, sums);
    if constexpr (outputs == Outputs::measured_list)
      measure(sums, lane, measured);
    else if constexpr (outputs == Outputs::any)
      if (output.totals.sum != nullptr) measure_all(o.g, sums, first_row, lane, measured);
  }
  wait_copies<0>();
  if constexpr (outputs == Outputs::summed_list)
    for (int i = 0; i < 2; ++i, tile += every) groups.broadcast_last(), groups.next(tile, [] {});
  if constexpr (outputs == Outputs::digits) {
    if (output.totals.sum == nullptr) return;
    add_pixel_totals(output, channel / 4, lane, of_pixels);
    const int past = (copies.first_n + tile_n) / 4, channels = output.pixels.channels;
    finish_totals(output.totals, own % tiles_n, every, copies.first_n / 4, past < channels ? past : channels,
                  o.g.pixels, [&](int c) { return output.pixels.factors[c]; });
  }
  if constexpr (outputs == Outputs::measured_list || outputs == Outputs::any) {
    if (output.totals.sum == nullptr) return;
    const int past = copies.first_n + tile_n, channels = o.g.to_channels;
    if (channel + lane / 4 < channels) add_to_totals(output.totals, channel + lane / 4, measured);
    finish_totals(output.totals, own % tiles_n, every, copies.first_n, past < channels ? past : channels, o.g.pixels,
                  [&](int) { return factor; });
  }
}

bool is_list(const Gather& g) {
  const auto whole = [](const Axis& axis) { return axis.first == 0 && axis.step == 1 && axis.count == axis.to; };
  return whole(g.h) && whole(g.w);
}

template <Outputs outputs>
using Known = std::integral_constant<Outputs, outputs>;

// Calls launch(Known) with what can be known. largest: the largest sum of products.
template <class Launch>
void with_outputs(const Gather& g, const Output& output, int64_t largest, const Launch& launch) {
  const bool eights = g.to_channels % 8 == 0 && neighbours_align(8, output.to);
  const bool replaced_list = eights && is_list(g) && output.to.bf16 && !output.to.add;
  if (output.pixels.factors != nullptr)
    launch(Known<Outputs::digits>{});
  else if (output.norm.of_chunks != nullptr)
    launch(Known<Outputs::summed_list>{});
  else if (replaced_list && measures(output) && !output.totals.extremes && largest <= largest_measured)
    launch(Known<Outputs::measured_list>{});
  else if (!eights || measures(output))
    launch(Known<Outputs::any>{});
  else if (replaced_list)
    launch(Known<Outputs::replaced_list>{});
  else if (is_list(g))
    launch(Known<Outputs::list>{});
  else
    launch(Known<Outputs::scattered>{});
}

}  // namespace

bool sums_for_norms(const Gather& g, const Output& output) {
  return g.to_channels % 8 == 0 && is_list(g) && output.to.bf16 && neighbours_align(8, output.to) &&
         neighbours_align(8, output.norm.x, DType::bf16);
}

int64_t norm_tickets(const Gather& g) {
  const int64_t columns = blocks_for(g.to_channels, wide_tiles(g.to_channels) ? 128 : 64);
  return (norm_groups_of(g.pixels) + 1) * columns;
}

void launch_gather_tiles(std::span<const Gather> gathers, const int8_t* from, DType type, const int8_t* weights,
                         int lane_bytes, int tap_bytes, const Output& output, int processors, Stream stream) {
  const Gather& g = gathers.front();  // no other phase has more pixels
  const int pixel_pieces = (g.from_channels + 15) / 16;
  const auto launch = [&]<int tile_n, Outputs outputs, class From>(Tile<tile_n>, Known<outputs>, From) {
    const int tiles_n = static_cast<int>(blocks_for(g.to_channels, tile_n));
    const int staying = processors * blocks_on<tile_n, outputs> / tiles_n;
    const int tiles_m = static_cast<int>(blocks_for(g.pixels, tile_m));
    const int blocks = tiles_n * std::max(1, std::min(staying, tiles_m));
    for (std::span<const Gather> left = gathers; !left.empty();) {
      Phases<outputs, From> phases;
      const size_t count = std::min(left.size(), std::size(phases.at));
      for (size_t i = 0; i < count; ++i)
        phases.at[i] = {left[i],
                        from,
                        weights,
                        lane_bytes,
                        tap_bytes,
                        pixel_pieces,
                        left[i].h.taps * left[i].w.taps * pixel_pieces};
      OCTET_LAUNCH((gather_tiles<tile_n, outputs, From>), grid_of(blocks, static_cast<int64_t>(count)),
                   dim3(Tile<tile_n>::threads), stream, phases, output, tiles_n, blocks);
      left = left.subspan(count);
    }
  };
  const int64_t products = int64_t{g.h.taps} * g.w.taps * g.from_channels;  // with moments there is one phase
  const auto with_type = [&]<class From>(From code) {
    with_outputs(g, output, products * (type == DType::u8 ? 255 : 127) * 127, [&](auto outputs) {
      wide_tiles(g.to_channels) ? launch(Tile<128>{}, outputs, code) : launch(Tile<64>{}, outputs, code);
    });
  };
  type == DType::u8 ? with_type(uint8_t{}) : with_type(int8_t{});
}

}  // namespace octet::cuda
