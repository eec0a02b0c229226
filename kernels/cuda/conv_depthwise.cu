// Depthwise convolutions of codes. A word in memory holds codes of four neighbouring channels. Words of neighbouring
// pixels are turned, so that each holds codes of one channel, and an instruction adds up to four products.
#include <algorithm>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/exact_totals.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"
#include "kernels/cuda/weight_totals.h"

namespace octet::cuda {
namespace {

constexpr int taps = 3;  // along each axis

__device__ __forceinline__ bool within(int at, int extent) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(extent);
}

// A block computes a chunk of pixels for 64 channels. A thread walks over `run` of them with `fours` times four
// channels. It keeps the last three columns of each row of x, and a step to the right adds one.
constexpr int block_channels = 64;
template <int fours>
struct PixelRun {
  static constexpr int channels = 4 * fours, lanes = block_channels / channels, run = 8;
  static constexpr int threads = lanes * (chunk_pixels / run);
};

// For each row and channel a word: its taps, or the codes that they meet. The fourth byte is any code and a tap of 0.
template <int fours>
struct Window {
  uint32_t word[taps][4 * fours];
};

// Taps of a row; zeros where the convolution has fewer.
__device__ __forceinline__ uint32_t row_of_taps(const Gather& g, const int8_t* weights, int channel, int row) {
  uint32_t word = 0;
  if (channel >= g.to_channels || row >= g.h.taps) return word;
  for (int u = 0; u < g.w.taps; ++u) {
    const int tap = g.h.kernel[row] * g.kernel_w + g.w.kernel[u];
    word |= static_cast<uint32_t>(static_cast<uint8_t>(weights[channel * g.weight_group + tap])) << 8 * u;
  }
  return word;
}

// Adds a column of x, whose codes of row v lie at `at + v * row`.
template <int fours>
__device__ __forceinline__ void push_column(Window<fours>& window, const uint32_t* at, int64_t row, unsigned inside) {
#pragma unroll
  for (int v = 0; v < taps; ++v) {
    Some<uint32_t, fours> codes = {};
    if ((inside >> v & 1) != 0) codes = read_some(Width<fours>{}, at + v * row);
#pragma unroll
    for (int c = 0; c < 4 * fours; ++c)
      window.word[v][c] = chosen_bytes(window.word[v][c], codes.at[c / 4], 0x0021 + ((4 + c % 4) << 8));
  }
}

template <int fours, class From>
__global__ void __launch_bounds__(PixelRun<fours>::threads)
    depthwise_gather(const __grid_constant__ Gather g, const uint32_t* from, const int8_t* weights,
                     const __grid_constant__ Output output) {
  using Run = PixelRun<fours>;
  __shared__ int32_t values[chunk_pixels][block_channels + 1];
  __shared__ uint32_t shared_taps[taps][block_channels];
  const Block block(g.chunks);
  const int chunk = block.inner, first = block.outer * block_channels, thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < taps * block_channels; i += Run::threads)
    shared_taps[i / block_channels][i % block_channels] =
        row_of_taps(g, weights, first + i % block_channels, i / block_channels);
  __syncthreads();
  const int own = thread % Run::lanes * Run::channels, channel = first + own, begin = thread / Run::lanes * Run::run;
  const int count = chunk_count(g, chunk), end = begin + Run::run < count ? begin + Run::run : count;
  const float factor = *output.scale * *output.weight_scale;
  if (channel < g.to_channels && begin < end) {
    Window<fours> of_taps, window = {};
#pragma unroll
    for (int v = 0; v < taps; ++v)
#pragma unroll
      for (int c = 0; c < Run::channels; ++c) of_taps.word[v][c] = shared_taps[v][own + c];
    const int pitch = g.from_channels / 4;
    const int64_t row_pitch = int64_t{g.w.from} * pitch;
    Pixel pixel = pixel_of(g, chunk, begin);
    int64_t to = output_offset(g, pixel) + channel;
    int column = 0, past = 0;  // the next column of x, and the one behind those that the pixel meets
    unsigned rows = 0;         // those inside of x
    const uint32_t* at = nullptr;
    const auto begin_row = [&] {
      const int top = pixel.i * g.h.from_step + g.h.shift[0];
      column = pixel.j * g.w.from_step + g.w.shift[0], past = column + taps;
      rows = 0;
#pragma unroll
      for (int v = 0; v < taps; ++v) rows |= static_cast<unsigned>(within(top + v, g.h.from)) << v;
      at = from + (static_cast<int64_t>(pixel.image) * g.h.from + top) * row_pitch + int64_t{column} * pitch +
           channel / 4;
    };
    begin_row();
    for (int place = begin;;) {
      for (; column < past; ++column, at += pitch)
        push_column(window, at, row_pitch, within(column, g.w.from) ? rows : 0u);
      Values<Run::channels> finished;
#pragma unroll
      for (int c = 0; c < Run::channels; ++c) {
        int32_t sum = 0;
#pragma unroll
        for (int v = 0; v < taps; ++v)
          sum = add_four_products<From, int8_t>(window.word[v][c], of_taps.word[v][c], sum);
        finished.at[c] = static_cast<float>(sum) * factor;
        if (output.totals.sum != nullptr) values[place][own + c] = sum;
      }
      write_reals(Width<Run::channels>{}, output.to, to, finished);
      if (++place == end) break;
      if (++pixel.j < g.w.count) {
        past += g.w.from_step;
        to += int64_t{g.w.step} * g.to_channels;
      } else {
        pixel = pixel_of(g, chunk, place);
        to = output_offset(g, pixel) + channel;
        begin_row();
      }
    }
  }
  if (output.totals.sum == nullptr) return;
  __syncthreads();
  if (thread < block_channels && first + thread < g.to_channels) {
    ChannelSums of;
    int32_t sum = 0;  // of 64 sums of nine products
    int64_t square = 0;
    for (int row = 0; row < count; ++row) {
      const int32_t value = values[row][thread];
      sum += value;
      square += static_cast<int64_t>(value) * value;
    }
    of.sum = sum;
    of.add_squares(static_cast<uint64_t>(square));
    for (int row = 0; row < count && output.totals.extremes; ++row) of.raise(values[row][thread]);
    add_to_totals(output.totals, first + thread, of);
  }
  const int past = first + block_channels < g.to_channels ? first + block_channels : g.to_channels;
  finish_totals(output.totals, block.outer, g.chunks, first, past, g.pixels, [&](int) { return factor; });
}

// Weight gradient. A block sums over a split's groups of four neighbouring pixels of dy, for 32 channels.
constexpr int weight_threads = 256, weight_words = 8, weight_lanes = weight_threads / weight_words;
constexpr int warps = weight_threads / 32, weight_channels = 4 * weight_words;
constexpr int enough_groups = 64;  // of a thread

struct DepthwiseWeight {
  WeightGather g;
  const uint32_t *x, *dy;
  int groups;  // of all pixels
  Divisor row_groups, rows;
};

// Four pixels of four channels, turned: a word of each channel.
struct ByChannel {
  uint32_t channel[4];
  __device__ __forceinline__ ByChannel(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    const uint32_t low = chosen_bytes(a, b, 0x5140), high = chosen_bytes(a, b, 0x7362);
    const uint32_t last_low = chosen_bytes(c, d, 0x5140), last_high = chosen_bytes(c, d, 0x7362);
    channel[0] = chosen_bytes(low, last_low, 0x5410), channel[1] = chosen_bytes(low, last_low, 0x7632);
    channel[2] = chosen_bytes(high, last_high, 0x5410), channel[3] = chosen_bytes(high, last_high, 0x7632);
  }
  // Without the first pixel, and with another one behind the last.
  __device__ __forceinline__ void push(uint32_t pixel) {
#pragma unroll
    for (int c = 0; c < 4; ++c) channel[c] = chosen_bytes(channel[c], pixel, 0x0321 + ((4 + c) << 12));
  }
};

// Adds the products of one group: sums[tap][channel].
template <int stride, class X>
__device__ __forceinline__ void add_group(const DepthwiseWeight& o, int group, int word,
                                          int32_t (&sums)[taps * taps][4]) {
  const WeightGather& g = o.g;
  const int words = g.y_channels / 4, line = quotient(group, o.row_groups);
  const int image = quotient(line, o.rows), row = line - image * o.rows.value;
  const int column = (group - line * o.row_groups.value) * 4;
  const uint32_t* dy = o.dy + (static_cast<int64_t>(line) * g.y_w + column) * words + word;
  uint32_t gradients[4];
#pragma unroll
  for (int k = 0; k < 4; ++k, dy += words) gradients[k] = column + k < g.y_w ? read_only(dy) : 0u;
  const ByChannel of_dy(gradients[0], gradients[1], gradients[2], gradients[3]);
  const int top = row * stride - g.pad_h, left = column * stride - g.pad_w;
  const int64_t row_words = int64_t{g.x_w} * words;
  const uint32_t* x = o.x + (static_cast<int64_t>(image) * g.x_h + top) * row_words + int64_t{left} * words + word;
#pragma unroll
  for (int v = 0; v < taps; ++v, x += row_words) {
    constexpr int columns = 3 * stride + taps;
    const bool inside = within(top + v, g.x_h);
    uint32_t codes[columns];
    const uint32_t* at = x;
#pragma unroll
    for (int k = 0; k < columns; ++k, at += words) codes[k] = inside && within(left + k, g.x_w) ? read_only(at) : 0u;
    const auto add = [&](int u, const ByChannel& of_x) {
#pragma unroll
      for (int c = 0; c < 4; ++c)
        sums[v * taps + u][c] = add_four_products<X, int8_t>(of_x.channel[c], of_dy.channel[c], sums[v * taps + u][c]);
    };
    ByChannel of_x(codes[0], codes[stride], codes[2 * stride], codes[3 * stride]);
    add(0, of_x);
    if constexpr (stride == 1) {
      of_x.push(codes[4]);
      add(1, of_x);
      of_x.push(codes[5]);
    } else {
      add(1, ByChannel(codes[1], codes[1 + stride], codes[1 + 2 * stride], codes[1 + 3 * stride]));
      of_x.push(codes[2 + 3 * stride]);
    }
    add(2, of_x);
  }
}

template <int stride, class X>
__global__ void __launch_bounds__(weight_threads, 3)
    depthwise_weight(const __grid_constant__ DepthwiseWeight o, int split, int parts,
                     const __grid_constant__ WeightOutput to) {
  __shared__ int32_t of_warp[warps][weight_channels * taps * taps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread / weight_words, own = thread % weight_words;
  const Block block(blocks_for(o.g.y_channels, weight_channels));
  const int word = block.inner * weight_words + own;
  const int first = block.outer * split, end = o.groups - first < split ? o.groups : first + split;
  int32_t sums[taps * taps][4] = {};
  if (word < o.g.y_channels / 4)
    for (int group = first + lane; group < end; group += weight_lanes) add_group<stride, X>(o, group, word, sums);
#pragma unroll
  for (int tap = 0; tap < taps * taps; ++tap)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      int32_t sum = sums[tap][c];
#pragma unroll
      for (int mask = weight_words; mask < 32; mask *= 2) sum += __shfl_xor_sync(~0u, sum, mask);
      if (thread % 32 < weight_words) of_warp[thread / 32][(own * 4 + c) * taps * taps + tap] = sum;
    }
  __syncthreads();
  const int place = block.inner * weight_channels * taps * taps, count = o.g.y_channels * taps * taps;
  finish_split(to, block.inner, parts, [&](const auto& visit) {
    for (int i = thread; i < weight_channels * taps * taps && place + i < count; i += weight_threads) {
      int32_t sum = 0;
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) sum += of_warp[warp][i];
      visit(place + i, sum);
    }
  });
}

bool neighbours(const Axis& axis) {
  bool all = axis.taps >= 1 && axis.taps <= taps;
  for (int tap = 1; tap < axis.taps; ++tap) all = all && axis.shift[tap] == axis.shift[0] + tap;
  return all;
}
int64_t groups_of(const WeightGather& g) { return int64_t{g.images} * g.y_h * ((g.y_w + 3) / 4); }

}  // namespace

bool depthwise_fits(const Gather& g, const void* from, const Output& output) {
  return g.group_from == 1 && g.group_to == 1 && g.from_channels % 4 == 0 && neighbours(g.h) && neighbours(g.w) &&
         neighbours_align(4, from, DType::s8) && neighbours_align(4, output.to);
}

void launch_depthwise_gather(const Gather& g, const void* from, DType type, const int8_t* weights, const Output& output,
                             Stream stream) {
  const auto launch = [&]<int fours, class From>(Width<fours>, From) {
    OCTET_LAUNCH((depthwise_gather<fours, From>), grid_of(g.chunks, blocks_for(g.to_channels, block_channels)),
                 dim3(PixelRun<fours>::threads), stream, g, static_cast<const uint32_t*>(from), weights, output);
  };
  const bool eights =
      g.from_channels % 8 == 0 && neighbours_align(8, from, DType::s8) && neighbours_align(8, output.to);
  const auto with_width = [&](auto codes) { eights ? launch(Width<2>{}, codes) : launch(Width<1>{}, codes); };
  type == DType::u8 ? with_width(uint8_t{}) : with_width(int8_t{});
}

bool depthwise_fits(const WeightGather& g, const void* x, const void* dy) {
  return g.group_x == 1 && g.group_y == 1 && g.y_channels % 4 == 0 && g.kernel_h == taps && g.kernel_w == taps &&
         g.stride_h == g.stride_w && g.stride_h <= 2 && g.dilation_h == 1 && g.dilation_w == 1 &&
         neighbours_align(4, x, DType::s8) && neighbours_align(4, dy, DType::s8);
}

WeightSplits depthwise_weight_splits(const WeightGather& g, int processors, int64_t most_products) {
  constexpr int per_processor = 3;
  const int64_t groups = groups_of(g), enough = int64_t{weight_lanes} * enough_groups;
  const int64_t tiles = blocks_for(g.y_channels, weight_channels), fitting = processors * per_processor / tiles;
  const int64_t parts = std::max<int64_t>(1, std::min(fitting, (groups + enough - 1) / enough));
  const int64_t split = std::min((groups + parts - 1) / parts, most_products / 4);
  return {static_cast<int>(split), static_cast<int>((groups + split - 1) / split), static_cast<int>(tiles)};
}

void launch_depthwise_weight(const WeightGather& g, const void* x, DType type, const void* dy,
                             const WeightSplits& splits, const WeightOutput& to, Stream stream) {
  const DepthwiseWeight operands{g,
                                 static_cast<const uint32_t*>(x),
                                 static_cast<const uint32_t*>(dy),
                                 static_cast<int>(groups_of(g)),
                                 Divisor((g.y_w + 3) / 4),
                                 Divisor(g.y_h)};
  const auto launch = [&]<int stride, class X>(Width<stride>, X) {
    OCTET_LAUNCH((depthwise_weight<stride, X>), grid_of(splits.tiles, splits.parts), dim3(weight_threads), stream,
                 operands, splits.length, splits.parts, to);
  };
  const auto with_stride = [&]<class X>(X codes) {
    g.stride_h == 1 ? launch(Width<1>{}, codes) : launch(Width<2>{}, codes);
  };
  type == DType::u8 ? with_stride(uint8_t{}) : with_stride(int8_t{});
}

}  // namespace octet::cuda
