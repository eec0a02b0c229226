// What a warp does with a tile of sums of products: it writes them, adds them to what is there, measures them, or sums
// for a norm. For conv_tiles.cu.
#pragma once
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/exact_totals.h"
#include "kernels/cuda/norm_sums.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {

// What a kernel knows of its outputs when it is compiled.
enum class Outputs : uint8_t {
  replaced_list,  // bf16 that are not added to, in eights, neighbours in memory as they are in the gather
  measured_list,  // the same with moments, without extremes, of few enough products
  summed_list,    // bf16 in eights, in one list, which are summed for a norm
  list,           // of any type, in eights
  scattered,      // the pixels of one phase of a stride, in eights
  digits,         // of the first layer: columns are digits of channels; with or without moments
  any,            // with or without moments
};

// What a lane holds: eight rows, 16 i + 8 half below its first, of eight neighbouring channels.
template <class Visit>
__device__ __forceinline__ void for_each_row(const Visit& visit) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) visit(16 * i + 8 * half, i, half);
}
__device__ __forceinline__ Values<8> values_of_row(const Sums& sums, int i, int half, float factor) {
  Values<8> eight;
#pragma unroll
  for (int e = 0; e < 8; ++e) eight.at[e] = static_cast<float>(sums.at[i][e / 2][2 * half + e % 2]) * factor;
  return eight;
}

// The rows that hold something to add to, in bits of i * 2 + half. Not unrolled, as few layers ask.
__device__ __forceinline__ uint32_t rows_there(const EvenPixels& even, int first_row) {
  if (!even.alone) return 0xFFu;
  uint32_t rows = 0;
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    const int all = first_row + 8 * i, pixel = all - quotient(all, even.image_pixels) * even.image_pixels.value;
    const int row = quotient(pixel, even.row_pixels), column = pixel - row * even.row_pixels.value;
    if (((row | column) & 1) == 0) rows |= 1u << i;
  }
  return rows;
}
// Which of eight neighbours from element i on are there, in bits.
__device__ __forceinline__ uint32_t there(const Output& output, bool row, int64_t i) {
  if (!row) return 0;
  return output.mask != nullptr ? output.mask[i >> 3] : 0xFFu;
}
// Those, and zeros in place of the others.
template <DType type>
__device__ __forceinline__ Values<8> values_there(const Output& output, bool row, int64_t i) {
  constexpr Width<8> some;
  using Element = std::decay_t<decltype(Neighbours<type, 8>{}.at[0])>;
  const Stored<type>* const at = static_cast<const Stored<type>*>(output.to.data) + i;
  constexpr int words = sizeof(Neighbours<type, 8>) / sizeof(Element);
  Neighbours<type, 8> before = {};
  if (row) before = reread_some(Width<words>{}, reinterpret_cast<const Element*>(at));
  if (output.mask != nullptr) before = kept_where<type>(some, output.mask[i >> 3], before);
  return values_of<type>(some, before);
}
__device__ __forceinline__ Values<8> sum_of(const Values<8>& before, Values<8> eight) {
#pragma unroll
  for (int e = 0; e < 8; ++e) eight.at[e] = before.at[e] + eight.at[e];
  return eight;
}
// Writes one element, or adds it to what is there.
__device__ __forceinline__ void write_one(const Output& output, bool row, int64_t i, float value) {
  if (!output.to.add) return write_real(output.to, i, value);
  const bool is_there = (there(output, row, i) >> (i & 7) & 1) != 0;
  write_real({output.to.data, output.to.bf16, is_there}, i, is_there ? value : 0.0f + value);
}

// Writes what a lane holds.
template <Outputs outputs>
__device__ __forceinline__ void write_rows(const Gather& g, const Output& output, float factor, int first_row,
                                           int channel, const Sums& sums) {
  if constexpr (outputs == Outputs::replaced_list || outputs == Outputs::measured_list) {
    uint16_t* to = static_cast<uint16_t*>(output.to.data) + static_cast<int64_t>(first_row) * g.to_channels + channel;
    if (channel >= g.to_channels) return;
    const int left = g.pixels - first_row;
    for_each_row([&](int row, int i, int half) {
      Sixteen stored;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        stored.word[e] = bf16_pair(static_cast<float>(sums.at[i][e][2 * half]) * factor,
                                   static_cast<float>(sums.at[i][e][2 * half + 1]) * factor);
      if (row < left) write_sixteen(to, stored);
      to += 8 * g.to_channels;
    });
  } else {
    const uint32_t rows = outputs == Outputs::scattered ? 0u : rows_there(output.even, first_row);
    for_each_row([&](int below, int i, int half) {
      const int row = first_row + below;
      if (row >= g.pixels || channel >= g.to_channels) return;
      const bool is_there = (rows >> (2 * i + half) & 1) != 0;
      const Values<8> eight = values_of_row(sums, i, half, factor);
      const int64_t at =
          outputs == Outputs::list ? static_cast<int64_t>(row) * g.to_channels : output_offset(g, pixel_at(g, row));
      if constexpr (outputs == Outputs::any) {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (channel + e < g.to_channels) write_one(output, is_there, at + channel + e, eight.at[e]);
      } else if (outputs == Outputs::list && output.to.add && (output.mask != nullptr || output.even.alone)) {
        const int64_t first = at + channel;
        const Values<8> before = output.to.bf16 ? values_there<DType::bf16>(output, is_there, first)
                                                : values_there<DType::f32>(output, is_there, first);
        write_reals(Width<8>{}, {output.to.data, output.to.bf16, false}, first, sum_of(before, eight));
      } else {
        write_reals(Width<8>{}, output.to, at + channel, eight);
      }
    });
  }
}

// The same for a norm. A warp has one chunk.
__device__ __forceinline__ void write_and_sum(const Gather& g, const Output& output, float factor, int first_row,
                                              int channel, int lane, const Sums& sums) {
  constexpr Width<8> eight;
  NormPart<8> part;
  int64_t at = static_cast<int64_t>(first_row) * g.to_channels + channel;
  const int left = channel < g.to_channels ? g.pixels - first_row : 0;
  const uint32_t rows = rows_there(output.even, first_row);
  for_each_row([&](int row, int i, int half) {
    if (row < left) {
      uint16_t* const to = static_cast<uint16_t*>(output.to.data) + at;
      Values<8> values = values_of_row(sums, i, half, factor);
      if (output.to.add)
        values = sum_of(values_there<DType::bf16>(output, (rows >> (2 * i + half) & 1) != 0, at), values);
      Neighbours<DType::bf16, 8> stored;
#pragma unroll
      for (int e = 0; e < 4; ++e) stored.at[e] = bf16_pair(values.at[2 * e], values.at[2 * e + 1]);
      write_some(reinterpret_cast<uint32_t*>(to), stored);
      const uint32_t passes = output.norm.mask == nullptr ? 0xFFu : read_only(output.norm.mask + (at >> 3));
      part.add(values_of<DType::bf16>(eight, kept_where<DType::bf16>(eight, passes, stored)),
               values_of<DType::bf16>(eight, read_neighbours<DType::bf16>(eight, output.norm.x, at)));
    }
    at += int64_t{8} * g.to_channels;
  });
  const float sum = over_lanes(part.sum, lane), dot = over_lanes(part.dot, lane);
  const int own = channel + own_neighbour<8>(lane), chunk = first_row / chunk_pixels;
  if (own >= g.to_channels || chunk * chunk_pixels >= g.pixels) return;
  float* const to = output.norm.of_chunks + static_cast<int64_t>(chunk) * 2 * g.to_channels + own;
  to[0] = sum;
  to[g.to_channels] = dot;
}

// Adds the sums of a group's chunks, of the channels of one column of tiles. Not inlined, as it runs once for many
// tiles.
template <int tile_n>
__device__ __attribute__((noinline)) void add_group(const NormOutput& to, int pixels, int group, int groups, int column,
                                                    int columns) {
  const int thread = static_cast<int>(threadIdx.x), which = thread / tile_n;
  const int channel = column * tile_n + thread % tile_n;
  const int64_t channels = to.gradients.of.problem.shape.c;
  const int first = group * static_cast<int>(norm_chunks), all = (pixels + chunk_pixels - 1) / chunk_pixels;
  const int end = all - first < static_cast<int>(norm_chunks) ? all : first + static_cast<int>(norm_chunks);
  const float* from = to.of_chunks + (int64_t{first} * 2 + which) * channels + channel;
  double sum = 0;
  if (channel < channels)
#pragma unroll 8
    for (int chunk = first; chunk < end; ++chunk, from += 2 * channels) sum += static_cast<double>(*from);
  finish_groups(sum, which, channel, group, groups, column, to.of_groups, to.tickets + groups * columns, to.gradients);
}

// The last block to finish a tile of a group adds the sums of the group's chunks. A block counts a tile as finished
// while it writes the next one, and its threads learn at the one after that whether the count is complete, so that no
// warp waits for memory.
inline constexpr int tiles_of_group = static_cast<int>(norm_pixels * norm_chunks) / tile_m;
template <int tile_n>
struct GroupsOfTiles {
  const NormOutput& to;
  const int pixels, tiles_m, column, columns;
  const int first, every;  // the block's tiles
  bool last = false;       // in thread 0: whether this block was the last one at the tile that it has counted
  bool is_last = false;    // the same in all threads, of the tile before that one

  __device__ __forceinline__ unsigned blocks_at(int group) const {
    const int left = tiles_m - group * tiles_of_group;
    return static_cast<unsigned>(left < tiles_of_group ? left : tiles_of_group);
  }
  // A barrier. Thread 0 counts the others.
  __device__ __forceinline__ void broadcast_last() { is_last = __syncthreads_or(last ? 1 : 0) != 0; }
  // After that barrier. write() writes the tile.
  template <class Write>
  __device__ __forceinline__ void next(int tile, const Write& write) {
    const int group = (tile - every) / tiles_of_group;
    const bool counts = threadIdx.x == 0 && tile - every >= first && tile - every < tiles_m;
    unsigned before = 0;
    if (counts) before = arrive(to.tickets + group * columns + column, blocks_at(group));
    write();
    if (is_last) {
      __threadfence();
      add_group<tile_n>(to, pixels, (tile - 2 * every) / tiles_of_group,
                        (tiles_m + tiles_of_group - 1) / tiles_of_group, column, columns);
    }
    last = counts && before + 1 == blocks_at(group);
  }
};

// The same of the first layer: two channels of each row.
struct PixelSums {
  ChannelSums of[2];
};
__device__ __forceinline__ void write_pixels(const Gather& g, const Output& output, int first_row, int channel,
                                             const Sums& sums, PixelSums& measured) {
  const int channels = output.pixels.channels, exist = channel >= channels ? 0 : channel + 1 < channels ? 2 : 1;
  float factor[2] = {};
  for (int c = 0; c < exist; ++c) factor[c] = output.pixels.factors[channel + c];
  const bool pairs = output.to.bf16 && channels % 2 == 0 && reinterpret_cast<uintptr_t>(output.to.data) % 4 == 0;
  const int left = exist == 0 ? 0 : g.pixels - first_row;
  int64_t at = static_cast<int64_t>(first_row) * channels + channel;
  for_each_row([&](int row, int i, int half) {
    const auto column = [&](int n) { return static_cast<uint32_t>(sums.at[i][n / 2][2 * half + n % 2]); };
    if (row < left) {
      int32_t y32[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const uint32_t low = static_cast<uint32_t>((static_cast<int32_t>(column(pixel_digits * c)) + 128) >> 8);
        y32[c] = static_cast<int32_t>(low + column(pixel_digits * c + 1) + (column(pixel_digits * c + 2) << 8));
        measured.of[c].add_without_extremes(y32[c]);
      }
      if (output.totals.extremes)
        for (int c = 0; c < 2; ++c) measured.of[c].raise(y32[c]);
      const float first = static_cast<float>(y32[0]) * factor[0], second = static_cast<float>(y32[1]) * factor[1];
      if (pairs) {
        *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(output.to.data) + at) = bf16_pair(first, second);
      } else {
        write_real({output.to.data, output.to.bf16, false}, at, first);
        if (exist == 2) write_real({output.to.data, output.to.bf16, false}, at + 1, second);
      }
    }
    at += int64_t{8} * channels;
  });
}
__device__ __forceinline__ void add_pixel_totals(const Output& output, int channel, int lane, PixelSums& measured) {
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    ChannelSums& own = measured.of[c];
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) own.add(own.from_lane(mask));
    if (lane < 4 && channel + c < output.pixels.channels) add_to_totals(output.totals, channel + c, own);
  }
}

// Eight lanes hold rows of the same eight channels. Of a tile's moments lane / 4 keeps those of channel lane / 4 among
// them.
//
// Where each sum of products is at most 2^28, that of eight rows fits into int32, and that of 64 squares into 64 bits.
inline constexpr int64_t largest_measured = int64_t{1} << 28;
template <class Sum>
struct RowSums {
  Sum sum;
  uint64_t square;
};
__device__ __forceinline__ RowSums<int32_t> of_rows(const Sums& sums, int c) {
  int32_t sum = 0;
  int64_t square = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t own = sums.at[i][c / 2][2 * half + c % 2];
      sum += own;
      square += static_cast<int64_t>(own) * own;
    }
  return {sum, static_cast<uint64_t>(square)};
}
// A lane keeps one channel, gives the other to the lane that is `mask` away, and gets that lane's part of its own.
template <class Sum>
__device__ __forceinline__ RowSums<int64_t> met(bool keeps_second, int mask, const RowSums<Sum>& first,
                                                const RowSums<Sum>& second) {
  const Sum sum = keeps_second ? second.sum : first.sum, given = keeps_second ? first.sum : second.sum;
  const uint64_t square = keeps_second ? second.square : first.square;
  const uint64_t given_square = keeps_second ? first.square : second.square;
  return {static_cast<int64_t>(sum) + __shfl_xor_sync(~0u, given, mask),
          square + __shfl_xor_sync(~0u, given_square, mask)};
}
// Rows beyond the pixels have sums of 0, which change nothing.
__device__ __forceinline__ void measure(const Sums& sums, int lane, ChannelSums& own) {
  const bool upper = (lane & 16) != 0, middle = (lane & 8) != 0, odd = (lane & 4) != 0;
  RowSums<int64_t> of[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) of[c] = met(upper, 16, of_rows(sums, c), of_rows(sums, c + 4));
#pragma unroll
  for (int c = 0; c < 2; ++c) of[c] = met(middle, 8, of[c], of[c + 2]);
  const RowSums<int64_t> last = met(odd, 4, of[0], of[1]);
  own.sum += last.sum;
  own.add_squares(last.square);
}
// Without these bounds, and with extremes.
__device__ __forceinline__ void measure_all(const Gather& g, const Sums& sums, int first_row, int lane,
                                            ChannelSums& own) {
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    ChannelSums of;
    for_each_row([&](int row, int i, int half) {
      if (first_row + row < g.pixels) of.add(sums.at[i][c / 2][2 * half + c % 2]);
    });
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) of.add(of.from_lane(mask));
    if (lane / 4 == c) own.add(of);
  }
}

}  // namespace octet::cuda
