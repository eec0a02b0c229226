// Forward and data gradient without tensor cores: depthwise, grouped and real-valued convolutions. A block computes one
// chunk of 64 pixels for 32 or 64 output channels. Sums of real values add taps and channels in the order of the CPU's
// kernels, padding included.
#include "kernels/cuda/cut_sums.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int lanes = 32, together = 8, threads = lanes * together;

// The pixels of the chunk that one thread computes, for one output channel or two that lie `lanes` apart.
constexpr int rows = chunk_pixels / together;
struct Rows {
  int image[rows], top[rows], left[rows];  // the image's first input pixel, and the position of a tap without shift
  unsigned inside = 0;
  __device__ __forceinline__ Rows(const Gather& g, int chunk) {
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const Pixel pixel = pixel_of(g, chunk, row(i));
      image[i] = pixel.image * g.h.from * g.w.from;
      top[i] = pixel.i * g.h.from_step;
      left[i] = pixel.j * g.w.from_step;
      if (pixel.inside) inside |= 1u << i;
    }
  }
  __device__ __forceinline__ static int row(int i) { return static_cast<int>(threadIdx.x) / lanes + i * together; }
  __device__ __forceinline__ bool exists(int i) const { return (inside >> i & 1) != 0; }
};

// What one thread reads of x for some taps: neighbouring elements. Those outside [low, high) are padding.
template <class From>
struct Stretch {
  const From* x;
  int low, high;
};

// Adds `length` products for each pixel; the next weight lies `step` further, the next output's lane_step * lanes.
template <int outputs, bool whole, class From, class Element, class Sum>
__device__ __forceinline__ void add_stretch(const Stretch<From> (&of)[rows], int length, const Element* weights,
                                            int step, int lane_step, CutSums<Sum, rows * outputs>& sums) {
  for (int q = 0; q < length;) {
    const int end = q + sums.before_cut(length - q), products = end - q;
#pragma unroll(whole ? 4 : 1)
    for (; q < end; ++q, weights += step) {
      Element w[outputs];
#pragma unroll
      for (int o = 0; o < outputs; ++o) w[o] = weights[o * lanes * lane_step];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const From own = whole || (q >= of[i].low && q < of[i].high) ? of[i].x[q] : From{0};
#pragma unroll
        for (int o = 0; o < outputs; ++o) sums.part[i * outputs + o] += product<Sum>(own, w[o]);
      }
    }
    sums.next(products);
  }
}

// Adds the products of all taps and of a group's channels, which begin at first_channel. weights: the first output's
// first.
template <int outputs, class From, class Element, class Sum>
__device__ __forceinline__ void add_products(const Gather& g, const Rows& of, const From* from, const Element* weights,
                                             int first_channel, CutSums<Sum, rows * outputs>& sums) {
  const int channels = g.group_from;
  const bool row_is_run = g.group_from == g.from_channels && g.w.taps > 1 && g.w.shift[1] == g.w.shift[0] + 1;
  // A row's taps are one stretch if their weights follow each other as their pixels do.
  const bool joined = row_is_run && channels == g.from_channels && g.w.kernel[1] == g.w.kernel[0] + 1 &&
                      g.tap_step == channels * g.channel_step;
  const int taps = joined ? g.w.taps : 1, length = taps * channels;
  for (int v = 0; v < g.h.taps; ++v)
    for (int u = 0; u < g.w.taps; u += taps) {
      if (u == 0 || !row_is_run) sums.begin_run();
      Stretch<From> stretch[rows];
      bool whole = true;
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const int h = of.top[i] + g.h.shift[v], w = of.left[i] + g.w.shift[u];
        const bool inside = of.exists(i) && h >= 0 && h < g.h.from;
        const int low = w < 0 ? -w : 0, high = g.w.from - w < taps ? g.w.from - w : taps;
        const int64_t pixel = of.image[i] + static_cast<int64_t>(h) * g.w.from + w;
        stretch[i] = {from + pixel * g.from_channels + first_channel, low * channels, inside ? high * channels : 0};
        whole = whole && stretch[i].low == 0 && stretch[i].high == length;
      }
      const Element* const tap =
          weights + static_cast<int64_t>(g.h.kernel[v] * g.kernel_w + g.w.kernel[u]) * g.tap_step;
      if (whole)
        add_stretch<outputs, true>(stretch, length, tap, g.channel_step, g.lane_step, sums);
      else
        add_stretch<outputs, false>(stretch, length, tap, g.channel_step, g.lane_step, sums);
      if (u + taps == g.w.taps || !row_is_run) sums.end_run();
    }
}

template <int outputs, class From, class Element, class Sum>
__global__ void __launch_bounds__(threads, 2)
    direct_gather(const __grid_constant__ Gather g, const From* from, const Element* weights,
                  const __grid_constant__ Output output) {
  __shared__ float values[chunk_pixels][lanes * outputs + 1];
  const Block block(g.chunks);
  const int chunk = block.inner, first = block.outer * lanes * outputs;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int n = first + lane;  // the thread's first; the others do not exist beyond to_channels
  if (n < g.to_channels) {
    const int group = n / g.group_to, own = n % g.group_to;
    const Rows of(g, chunk);
    CutSums<Sum, rows * outputs> sums;
    add_products<outputs>(
        g, of, from, weights + static_cast<int64_t>(group) * g.weight_group + static_cast<int64_t>(own) * g.lane_step,
        group * g.group_from, sums);
    const float factor = output.scale != nullptr ? *output.scale * *output.weight_scale : 1.0f;
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      const int channel = n + o * lanes;
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const float value = static_cast<float>(sums[i * outputs + o]) * factor;
        values[Rows::row(i)][lane + o * lanes] = value;
        if (!of.exists(i)) continue;
        const Pixel pixel = pixel_of(g, chunk, Rows::row(i));
        write_real(output.to, output_offset(g, pixel) + channel, value);
      }
    }
  }
  if (output.moments == nullptr) return;
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= lanes * outputs || first + column >= g.to_channels) return;
  write_chunk_moments(g, chunk, first + column, output.moments, [&](int row) { return values[row][column]; });
}

template <class From, class Element, class Sum>
void launch_gather(const Gather& g, const void* from, const void* weights, const Output& output, Stream stream) {
  const auto* const own_from = static_cast<const From*>(from);
  const auto* const own_weights = static_cast<const Element*>(weights);
  const auto grid = [&](int outputs) { return grid_of(g.chunks, blocks_for(g.to_channels, lanes * outputs)); };
  if (g.group_to % (2 * lanes) == 0)
    OCTET_LAUNCH((direct_gather<2, From, Element, Sum>), grid(2), dim3(threads), stream, g, own_from, own_weights,
                 output);
  else
    OCTET_LAUNCH((direct_gather<1, From, Element, Sum>), grid(1), dim3(threads), stream, g, own_from, own_weights,
                 output);
}

}  // namespace

void launch_direct_gather(const Gather& g, const void* from, DType type, const void* weights, const Output& output,
                          Stream stream) {
  (is_real(type)       ? launch_gather<float, float, float>
   : type == DType::u8 ? launch_gather<uint8_t, int8_t, int32_t>
                       : launch_gather<int8_t, int8_t, int32_t>)(g, from, weights, output, stream);
}

}  // namespace octet::cuda
