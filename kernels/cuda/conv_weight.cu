// Weight gradients of codes on tensor cores: D[m][n] = sum over the pixels of dy of dy[pixel][m] x[its pixel][n], where
// n is a tap and an input channel. Both operands are read as they lie in memory, channels last. Tensor cores want the
// pixels of a channel as neighbours, so a warp turns them as it loads them from shared memory: a matrix load transposes
// pairs of bytes, and the bytes of each pair go to two channels. A pixel takes the same place in both operands.
#include <algorithm>

#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/tensor_tile.h"
#include "kernels/cuda/weight_totals.h"

namespace octet::cuda {
namespace {

constexpr int step_pixels = 64;
constexpr int64_t most_elements = int64_t{1} << 31;  // of x and of dy with their padding: offsets have 32 bits
constexpr int enough_pixels = 2048;                  // of a split: fewer are not worth a block

int64_t columns_of(const WeightGather& g) { return int64_t{g.kernel_h} * g.kernel_w * padded_channels(g.x_channels); }

// A tile of m x n outputs, of which a warp computes 64 x 32.
template <int m, int n>
struct Turned {
  static constexpr int threads = m / 64 * (n / 32) * 32;
  static constexpr int stage_bytes = step_pixels * (m + n);
  static constexpr int blocks = blocks_of_256 * (256 / threads);  // that a processor should hold at once
};

// Where a piece of 16 channels of a pixel lies in a stage: the eight pixels that one matrix load reads lie in eight
// different groups of banks.
template <int tile>
__device__ __forceinline__ int turned_piece(int pixel, int piece) {
  return pixel * tile + ((piece ^ (tile == 128 ? pixel & 7 : (pixel >> 1) & 3)) << 4);
}

// Of a pixel. One outside of the tensor has an offset, too, and nothing is read there.
__device__ __forceinline__ uint32_t offset(int pixel, int channels) {
  return static_cast<uint32_t>(pixel) * static_cast<uint32_t>(channels);
}

struct TurnedOperands {
  const int8_t *x, *dy;
  WeightGather g;
  int pixels;                        // of dy
  int x_padded, y_padded;            // channels of a pixel in memory
  int columns;                       // taps * x_padded
  Divisor image_pixels, row_pixels;  // of dy
};

// One operand's copies by one thread: the same piece of some pixels in each step.
template <int tile, int threads>
struct Copies {
  static constexpr int pieces = tile / 16, every = threads / pieces, count = step_pixels / every;
  static_assert(every % 8 == 0);  // the pixels that one thread copies are placed alike
  const int piece = static_cast<int>(threadIdx.x) % pieces, first = static_cast<int>(threadIdx.x) / pieces;
  const int place = turned_piece<tile>(first, piece);
};

// The tap and the channels that a thread copies of each pixel of x.
struct Column {
  uint32_t channel;
  int shift_h, shift_w;
  bool exists;
  __device__ __forceinline__ Column(const TurnedOperands& o, int column) {
    const int tap = column / o.x_padded, v = tap / o.g.kernel_w;
    shift_h = v * o.g.dilation_h - o.g.pad_h;
    shift_w = (tap - v * o.g.kernel_w) * o.g.dilation_w - o.g.pad_w;
    channel = static_cast<uint32_t>(column - tap * o.x_padded);
    exists = column < o.columns;
  }
  // What the pixel of dy meets; `end`: of the pixels that exist.
  __device__ __forceinline__ void copy(const TurnedOperands& o, int8_t* to, int pixel, int end) const {
    const int image = quotient(pixel, o.image_pixels), rest = pixel - image * o.image_pixels.value;
    const int row = quotient(rest, o.row_pixels);
    const int h = row * o.g.stride_h + shift_h, w = (rest - row * o.row_pixels.value) * o.g.stride_w + shift_w;
    const bool inside = pixel < end && static_cast<unsigned>(h) < static_cast<unsigned>(o.g.x_h) &&
                        static_cast<unsigned>(w) < static_cast<unsigned>(o.g.x_w);
    const int place = (image * o.g.x_h + h) * o.g.x_w + w;
    copy_async(to, o.x + (offset(place, o.x_padded) + channel), inside);
  }
};

// 16 channels of 32 pixels, turned: even[0] and even[1] are what multiply_add() takes of channel 2 (lane / 4), odd of
// the next one.
struct TurnedChannels {
  uint32_t even[2], odd[2];
  __device__ __forceinline__ explicit TurnedChannels(const int8_t* own_pixel) {
    uint32_t raw[4];
    load_turned(raw, own_pixel);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      even[half] = chosen_bytes(raw[2 * half], raw[2 * half + 1], 0x6420);
      odd[half] = chosen_bytes(raw[2 * half], raw[2 * half + 1], 0x7531);
    }
  }
};

// Adds the products of one stage to the thread's sums, by blocks of 16 rows and of 8 columns. a, b: where in `shared`
// the first piece lies that the thread's warp reads of the lane's pixel. Others differ in the bits of their number.
template <int m, int n, class X>
__device__ __forceinline__ void multiply_turned(const int8_t* shared, int a_at, int b_at, int32_t (&sums)[4][4][4]) {
#pragma unroll
  for (int half = 0; half < step_pixels / 32; ++half) {
    uint32_t a[4][4], b[4][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TurnedChannels of(shared + (a_at ^ i << 4) + half * 32 * m);
      a[i][0] = of.even[0], a[i][1] = of.odd[0], a[i][2] = of.even[1], a[i][3] = of.odd[1];
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const TurnedChannels of(shared + (b_at ^ j << 4) + half * 32 * n);
      b[2 * j][0] = of.even[0], b[2 * j][1] = of.even[1], b[2 * j + 1][0] = of.odd[0], b[2 * j + 1][1] = of.odd[1];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_add<int8_t, X>(sums[i][j], a[i], b[j][0], b[j][1]);
  }
}

// Calls visit(element of dw, sum) for the lane's sums. Row r of a block is channel 2 r, or for r >= 8 channel
// 2 (r - 8) + 1, and so are columns of the two blocks of a piece: four neighbouring outputs are one lane's.
template <class Visit>
__device__ __forceinline__ void visit_turned(const TurnedOperands& o, int first_m, int first_n,
                                             const int32_t (&sums)[4][4][4], const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % 32, channels = o.g.x_channels;
  const int length = o.g.kernel_h * o.g.kernel_w * channels;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int column = first_n + j * 16 + lane % 4 * 4, tap = column / o.x_padded, channel = column - tap * o.x_padded;
    if (column >= o.columns) continue;
    const int at = tap * channels + channel;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = first_m + i / 2 * 16 + lane / 4 * 2 + i % 2;
      if (row >= o.g.y_channels) continue;
      const auto &even = sums[i / 2][2 * j], &odd = sums[i / 2][2 * j + 1];
      const int32_t four[4] = {even[i % 2 * 2], odd[i % 2 * 2], even[i % 2 * 2 + 1], odd[i % 2 * 2 + 1]};
      const int64_t own = static_cast<int64_t>(row) * length + at;
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (channel + c < channels) visit(own + c, four[c]);
    }
  }
}

// A block computes one tile over the pixels of one split. list: each pixel of dy meets the pixel of x with its number.
template <int m, int n, bool list, class X>
__global__ void __launch_bounds__(Turned<m, n>::threads, Turned<m, n>::blocks)
    turned_weight(const __grid_constant__ TurnedOperands o, int split, int parts,
                  const __grid_constant__ WeightOutput to) {
  using T = Turned<m, n>;
  alignas(128) __shared__ int8_t shared[stages * T::stage_bytes];
  const int tiles_m = static_cast<int>(blocks_for(o.g.y_channels, m));
  const Block block(int64_t{tiles_m} * blocks_for(o.columns, n));
  const int first_m = block.inner % tiles_m * m, first_n = block.inner / tiles_m * n;
  const int first = block.outer * split, end = o.pixels - first < split ? o.pixels : first + split;

  const Copies<m, T::threads> of_dy;
  const Copies<n, T::threads> of_x;
  const int row = first_m + of_dy.piece * 16;
  // The end of the pixels that this thread copies: none of channels that do not exist.
  const int dy_end = row < o.y_padded ? end : 0;
  uint32_t dy_at = offset(first + of_dy.first, o.y_padded) + static_cast<uint32_t>(row);
  const Column column(o, first_n + of_x.piece * 16);
  const int x_end = column.exists ? end : 0;
  uint32_t x_at = column.channel + (list ? offset(first + of_x.first, o.x_padded) : 0);
  const auto fetch = [&](int next, int8_t* stage) {  // the pixels from `next` on
    if (next < end) {
#pragma unroll
      for (int i = 0; i < of_dy.count; ++i)
        copy_async(stage + of_dy.place + i * of_dy.every * m, o.dy + (dy_at + offset(i * of_dy.every, o.y_padded)),
                   next + of_dy.first + i * of_dy.every < dy_end);
#pragma unroll
      for (int i = 0; i < of_x.count; ++i) {
        int8_t* const to = stage + step_pixels * m + of_x.place + i * of_x.every * n;
        const int pixel = next + of_x.first + i * of_x.every;
        if constexpr (list)
          copy_async(to, o.x + (x_at + offset(i * of_x.every, o.x_padded)), pixel < x_end);
        else
          column.copy(o, to, pixel, x_end);
      }
      dy_at += offset(step_pixels, o.y_padded);
      if constexpr (list) x_at += offset(step_pixels, o.x_padded);
    }
    commit_copies();
  };
#pragma unroll
  for (int step = 0; step < stages - 1; ++step) fetch(first + step * step_pixels, shared + step * T::stage_bytes);

  const int warp = static_cast<int>(threadIdx.x) / 32, part_m = warp / (n / 32) * 64, part_n = warp % (n / 32) * 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int a_piece = turned_piece<m>(lane, part_m / 16),
            b_piece = step_pixels * m + turned_piece<n>(lane, part_n / 16);
  int32_t sums[4][4][4] = {};
  int stage = 0;
  for (int at = first; at < end; at += step_pixels) {
    wait_copies<stages - 2>();
    __syncthreads();
    const int before = stage == 0 ? stages - 1 : stage - 1;  // every thread has read it
    fetch(at + (stages - 1) * step_pixels, shared + before * T::stage_bytes);
    const int own = stage * T::stage_bytes;
    multiply_turned<m, n, X>(shared, own + a_piece, own + b_piece, sums);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  wait_copies<0>();
  finish_split(to, block.inner, parts,
               [&](const auto& visit) { visit_turned(o, first_m + part_m, first_n + part_n, sums, visit); });
}

// Whether as_pixel_list() has made it: an image is one pixel.
bool is_pixel_list(const WeightGather& g) {
  return g.x_h == 1 && g.x_w == 1 && g.y_h == 1 && g.y_w == 1 && g.kernel_h == 1 && g.kernel_w == 1 && g.pad_h == 0 &&
         g.pad_w == 0;
}

// Calls f with the tile that wastes the fewest products.
template <class F>
auto with_tile(const WeightGather& g, const F& f) {
  const int64_t columns = columns_of(g);
  if (g.y_channels <= 64) return f(Turned<64, 128>{});
  if (columns % 128 != 0 && columns <= 512) return f(Turned<128, 64>{});
  return f(Turned<128, 128>{});
}

}  // namespace

WeightSplits tensor_weight_splits(const WeightGather& g, int processors, int64_t most_products) {
  const int64_t pixels = int64_t{g.images} * g.y_h * g.y_w;
  const auto steps = [](int64_t of_pixels) { return (of_pixels + step_pixels - 1) / step_pixels; };
  return with_tile(g, [&]<int m, int n>(Turned<m, n>) -> WeightSplits {
    const int64_t tiles = int64_t{blocks_for(g.y_channels, m)} * blocks_for(columns_of(g), n);
    const int64_t fitting = processors * Turned<m, n>::blocks / tiles;
    const int64_t parts = std::max<int64_t>(1, std::min(fitting, (pixels + enough_pixels - 1) / enough_pixels));
    const int64_t split = std::min(steps((pixels + parts - 1) / parts), most_products / step_pixels) * step_pixels;
    return {static_cast<int>(split), static_cast<int>((pixels + split - 1) / split), static_cast<int>(tiles)};
  });
}

void launch_tensor_weight(const WeightGather& g, const int8_t* x, DType type, const int8_t* dy,
                          const WeightSplits& splits, const WeightOutput& to, Stream stream) {
  for (const int64_t elements : {int64_t{g.images} * g.x_h * g.x_w * padded_channels(g.x_channels),
                                 int64_t{g.images} * g.y_h * g.y_w * padded_channels(g.y_channels)})
    REQUIRE_USAGE(elements <= most_elements, "use a smaller batch per GPU", "a weight gradient reads ", elements,
                  " codes with their padding, and offsets reach ", most_elements);
  const TurnedOperands operands{x,
                                dy,
                                g,
                                g.images * g.y_h * g.y_w,
                                static_cast<int>(padded_channels(g.x_channels)),
                                static_cast<int>(padded_channels(g.y_channels)),
                                static_cast<int>(columns_of(g)),
                                Divisor(g.y_h * g.y_w),
                                Divisor(g.y_w)};
  const bool list = is_pixel_list(g);
  with_tile(g, [&]<int m, int n>(Turned<m, n>) {
    const dim3 grid = grid_of(splits.tiles, splits.parts);
    const dim3 threads(Turned<m, n>::threads);
    const auto launch = [&]<class X>(X) {
      if (list)
        OCTET_LAUNCH((turned_weight<m, n, true, X>), grid, threads, stream, operands, splits.length, splits.parts, to);
      else
        OCTET_LAUNCH((turned_weight<m, n, false, X>), grid, threads, stream, operands, splits.length, splits.parts, to);
    };
    type == DType::u8 ? launch(uint8_t{}) : launch(int8_t{});
  });
}

}  // namespace octet::cuda
