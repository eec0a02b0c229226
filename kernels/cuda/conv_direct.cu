// Forward and data gradient without tensor cores: depthwise, grouped and real-valued convolutions. A block computes one
// chunk of 64 pixels for 32 or 64 output channels. Sums of real values add taps and channels in the order of the CPU's
// kernels, padding included.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cut_sums.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/exact_totals.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

// A thread computes `rows` pixels of the chunk for one output channel or four neighbours.
template <int outputs>
struct Part {
  static constexpr int lanes = outputs == 1 ? 32 : 16, together = threads / lanes, rows = chunk_pixels / together;
};

template <int outputs>
struct Rows {
  static constexpr int rows = Part<outputs>::rows;
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
  __device__ __forceinline__ static int row(int i) {
    return static_cast<int>(threadIdx.x) / Part<outputs>::lanes + i * Part<outputs>::together;
  }
  __device__ __forceinline__ bool exists(int i) const { return (inside >> i & 1) != 0; }
};

// What one thread reads of x for some taps: neighbouring elements. Those outside [low, high) are padding.
template <class From>
struct Stretch {
  const From* x;
  int low, high;
};

// Adds `length` products for each pixel; the next weights lie `step` further.
template <int outputs, bool whole, int rows, class From, class Element, class Sum>
__device__ __forceinline__ void add_stretch(const Stretch<From> (&of)[rows], int length, const Element* weights,
                                            int step, CutSums<Sum, rows * outputs>& sums) {
  for (int q = 0; q < length;) {
    const int end = q + sums.before_cut(length - q), products = end - q;
#pragma unroll(whole ? 4 : 1)
    for (; q < end; ++q, weights += step) {
      const Some<Element, outputs> w = read_some(Width<outputs>{}, weights);
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const From own = whole || (q >= of[i].low && q < of[i].high) ? of[i].x[q] : From{0};
#pragma unroll
        for (int o = 0; o < outputs; ++o) sums.part[i * outputs + o] += product<Sum>(own, w.at[o]);
      }
    }
    sums.next(products);
  }
}

// Adds the products of all taps and of a group's channels, which begin at first_channel. weights: the first output's
// first. padded: every tap of every pixel lies inside the input.
template <int outputs, bool padded, class From, class Element, class Sum>
__device__ __forceinline__ void add_products(const Gather& g, const Rows<outputs>& of, const From* from,
                                             const Element* weights, int first_channel,
                                             CutSums<Sum, Part<outputs>::rows * outputs>& sums) {
  const int channels = g.group_from;
  const bool row_is_run = g.group_from == g.from_channels && g.w.taps > 1 && g.w.shift[1] == g.w.shift[0] + 1;
  // A row's taps are one stretch if their weights follow each other as their pixels do.
  const bool joined = row_is_run && channels == g.from_channels && g.w.kernel[1] == g.w.kernel[0] + 1 &&
                      g.tap_step == channels * g.channel_step;
  const int taps = joined ? g.w.taps : 1, length = taps * channels;
  for (int v = 0; v < g.h.taps; ++v)
    for (int u = 0; u < g.w.taps; u += taps) {
      if (u == 0 || !row_is_run) sums.begin_run();
      Stretch<From> stretch[Rows<outputs>::rows];
      bool whole = true;
#pragma unroll
      for (int i = 0; i < Rows<outputs>::rows; ++i) {
        const int h = of.top[i] + g.h.shift[v], w = of.left[i] + g.w.shift[u];
        const bool inside = of.exists(i) && h >= 0 && h < g.h.from;
        const int low = w < 0 ? -w : 0, high = g.w.from - w < taps ? g.w.from - w : taps;
        const int64_t pixel = of.image[i] + static_cast<int64_t>(h) * g.w.from + w;
        stretch[i] = {from + pixel * g.from_channels + first_channel, low * channels, inside ? high * channels : 0};
        whole = whole && stretch[i].low == 0 && stretch[i].high == length;
      }
      const Element* const tap =
          weights + static_cast<int64_t>(g.h.kernel[v] * g.kernel_w + g.w.kernel[u]) * g.tap_step;
      if (padded || whole)
        add_stretch<outputs, true>(stretch, length, tap, g.channel_step, sums);
      else
        add_stretch<outputs, false>(stretch, length, tap, g.channel_step, sums);
      if (u + taps == g.w.taps || !row_is_run) sums.end_run();
    }
}

template <int outputs, bool padded, class From, class Element, class Sum>
__global__ void __launch_bounds__(threads, 2)
    direct_gather(const __grid_constant__ Gather g, const From* from, const Element* weights,
                  const __grid_constant__ Output output) {
  constexpr int lanes = Part<outputs>::lanes, rows = Part<outputs>::rows;
  __shared__ Sum values[chunk_pixels][lanes * outputs + 1];
  const Block block(g.chunks);
  const int chunk = block.inner, first = block.outer * lanes * outputs;
  const int lane = static_cast<int>(threadIdx.x) % lanes * outputs;
  const int n = first + lane;  // the thread's first channel
  const float factor = output.scale != nullptr ? *output.scale * *output.weight_scale : 1.0f;
  if (n < g.to_channels) {
    const int group = n / g.group_to, own = n % g.group_to;
    const Rows<outputs> of(g, chunk);
    CutSums<Sum, rows * outputs> sums;
    add_products<outputs, padded>(
        g, of, from, weights + static_cast<int64_t>(group) * g.weight_group + static_cast<int64_t>(own) * g.lane_step,
        group * g.group_from, sums);
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      Values<outputs> finished;
#pragma unroll
      for (int o = 0; o < outputs; ++o) {
        values[of.row(i)][lane + o] = sums[i * outputs + o];
        finished.at[o] = static_cast<float>(sums[i * outputs + o]) * factor;
      }
      if (!of.exists(i)) continue;
      const Pixel pixel = pixel_of(g, chunk, of.row(i));
      write_reals(Width<outputs>{}, output.to, output_offset(g, pixel) + n, finished);
    }
  }
  if (!measures(output)) return;
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x), channel = first + column;
  const bool exists = column < lanes * outputs && channel < g.to_channels;
  if constexpr (std::is_same_v<Sum, float>) {
    if (exists)
      write_chunk_moments(g, chunk, channel, output.chunk_moments, [&](int row) { return values[row][column]; });
  } else {
    ChannelSums own;
    for (int row = 0; exists && row < chunk_count(g, chunk); ++row) own.add(values[row][column]);
    if (exists) add_to_totals(output.totals, channel, own);
    const int past = first + lanes * outputs < g.to_channels ? first + lanes * outputs : g.to_channels;
    finish_totals(output.totals, block.outer, g.chunks, first, past, g.pixels, [&](int) { return factor; });
  }
}

template <bool padded, class From, class Element, class Sum>
void launch_gather(const Gather& g, const void* from, const void* weights, const Output& output, Stream stream) {
  const auto launch = [&]<int outputs>(Width<outputs>) {
    OCTET_LAUNCH((direct_gather<outputs, padded, From, Element, Sum>),
                 grid_of(g.chunks, blocks_for(g.to_channels, Part<outputs>::lanes * outputs)), dim3(threads), stream, g,
                 static_cast<const From*>(from), static_cast<const Element*>(weights), output);
  };
  const bool fours = g.group_to % (Part<4>::lanes * 4) == 0 && g.lane_step == 1 && g.tap_step % 4 == 0 &&
                     g.channel_step % 4 == 0 && neighbours_align(4, output.to) &&
                     reinterpret_cast<uintptr_t>(weights) % (4 * sizeof(Element)) == 0;
  if (fours)
    launch(Width<4>{});
  else
    launch(Width<1>{});
}

}  // namespace

void launch_direct_gather(const Gather& g, const void* from, DType type, const void* weights, const Output& output,
                          Stream stream) {
  if (is_real(type) && is_matrix_product(g, output))
    return launch_matrix_product(g, static_cast<const float*>(from), static_cast<const float*>(weights), output,
                                 stream);
  (is_real(type)
       ? taps_stay_inside(g) ? launch_gather<true, float, float, float> : launch_gather<false, float, float, float>
   : type == DType::u8 ? launch_gather<false, uint8_t, int8_t, int32_t>
                       : launch_gather<false, int8_t, int8_t, int32_t>)(g, from, weights, output, stream);
}

}  // namespace octet::cuda
