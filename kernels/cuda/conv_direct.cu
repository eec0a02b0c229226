// Convolutions without tensor cores: depthwise, grouped, and real-valued ones. A block makes one chunk of 64 pixels for
// 32 output channels; sums of real values go over taps and channels in the order of the CPU's kernels, pads included.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int lanes = 32, together = 8, threads = lanes * together;

// From and Element are one type but where codes of activations are unsigned.
template <class Sum, class From, class Element>
__device__ __forceinline__ Sum product(From x, Element w) {
  return static_cast<Sum>(x) * static_cast<Sum>(w);
}

// What one thread makes: these pixels of the chunk, for one output channel or several that lie `lanes` apart.
constexpr int rows = chunk_pixels / together;
struct Rows {
  int image[rows], top[rows], left[rows];  // the image's first input pixel, and where tap (0, 0) without shift reads
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

// Sums of one thread; real ones are cut as shared/sums.h says.
template <class Sum, int count>
struct CutSums {
  Sum part[count] = {}, folded[count] = {};
  int in_run = 0, since = 0;
  __device__ __forceinline__ void begin_run() { in_run = 0; }
  // How many of `products` still to come may be added before next(that many).
  __device__ __forceinline__ int before_cut(int products) const {
    if constexpr (!std::is_same_v<Sum, float>) return products;
    const int left = static_cast<int>(fold_products) - in_run % static_cast<int>(fold_products);
    return left < products ? left : products;
  }
  __device__ __forceinline__ void next(int products) {
    if constexpr (std::is_same_v<Sum, float>) {
      since += products;
      in_run += products;
      if (in_run % fold_products == 0) fold();
    }
  }
  __device__ __forceinline__ void end_run() {
    if (since >= fold_products) fold();
  }
  __device__ __forceinline__ Sum operator[](int i) const { return folded[i] + part[i]; }

 private:
  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int i = 0; i < count; ++i) folded[i] += part[i], part[i] = 0;
    since = 0;
  }
};

// What one thread reads of x for some taps: neighbouring elements, of which those outside [low, high) are padding.
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

// Adds the products of `channels` input channels from first_channel on, over all taps; weights point at the first
// output's first.
template <int outputs, class From, class Element, class Sum>
__device__ __forceinline__ void add_products(const Gather& g, const Rows& of, const From* from, const Element* weights,
                                             int first_channel, int channels, CutSums<Sum, rows * outputs>& sums) {
  const bool row_is_run = g.group_from == g.from_channels && g.w.taps > 1 && g.w.shift[1] == g.w.shift[0] + 1;
  // A row's taps are one stretch where their weights follow each other as their pixels do.
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
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int chunk = static_cast<int>(blockIdx.x), first = static_cast<int>(blockIdx.y) * lanes * outputs;
  const int n = first + lane;  // the thread's first; the others do not exist beyond to_channels
  if (n < g.to_channels) {
    const int group = n / g.group_to, own = n % g.group_to;
    const Rows of(g, chunk);
    CutSums<Sum, rows * outputs> sums;
    add_products<outputs>(
        g, of, from, weights + static_cast<int64_t>(group) * g.weight_group + static_cast<int64_t>(own) * g.lane_step,
        group * g.group_from, g.group_from, sums);
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      const int channel = n + o * lanes;
      const float factor = output.scale != nullptr ? *output.scale * *output.weight_scale : 1.0f;
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const float value = static_cast<float>(sums[i * outputs + o]) * factor;
        values[Rows::row(i)][lane + o * lanes] = value;
        if (!of.exists(i)) continue;
        const Pixel pixel = pixel_of(g, chunk, Rows::row(i));
        write_real(output.to, output.bf16, output.add, output_offset(g, pixel) + channel, value);
      }
    }
  }
  if (output.moments == nullptr) return;
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= lanes * outputs || first + column >= g.to_channels) return;
  write_chunk_moments(g, chunk, first + column, output.moments, [&](int row) { return values[row][column]; });
}

// The gradients of some neighbouring outputs' weights, four each, over the pixels of one item, rows of dy in order.
constexpr int inputs = 4;
template <int outputs, class X, class Element, class Sum>
__global__ void __launch_bounds__(threads)
    direct_weight(const __grid_constant__ WeightGather g, const X* x, const Element* dy, Sum* partial) {
  const int taps = g.kernel_h * g.kernel_w, length = taps * g.group_x, output_groups = g.y_channels / outputs;
  const int thread = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  const int output = thread % output_groups * outputs, first_input = thread / output_groups * inputs;
  if (first_input >= length) return;
  int top[inputs], left[inputs], channel[inputs];
  int low = 0, end_of_row = g.y_w;  // errors of a row that meet x inside its width, with every input
#pragma unroll
  for (int k = 0; k < inputs; ++k) {
    const int place = first_input + k < length ? first_input + k : length - 1, tap = place / g.group_x;
    top[k] = tap / g.kernel_w * g.dilation_h - g.pad_h;
    left[k] = tap % g.kernel_w * g.dilation_w - g.pad_w;
    channel[k] = output / g.group_y * g.group_x + place % g.group_x;
    const int before = left[k] < 0 ? (-left[k] + g.stride_w - 1) / g.stride_w : 0;
    const int beyond = (g.x_w - left[k] + g.stride_w - 1) / g.stride_w;
    low = before > low ? before : low;
    end_of_row = beyond < end_of_row ? beyond : end_of_row;
  }
  const int item = static_cast<int>(blockIdx.y), first = item * g.item_images;
  const int end = first + g.item_images < g.images ? first + g.item_images : g.images;
  const bool pixel_list = g.x_h == 1 && g.x_w == 1 && taps == 1;
  CutSums<Sum, inputs * outputs> sums;
  for (int image = first; image < end; ++image)
    for (int i = 0; i < g.y_h; ++i) {
      if (!pixel_list) sums.begin_run();
      const X* pixels[inputs];  // where the row's first error meets x, which may lie outside
      bool inside[inputs];
      int high = end_of_row;  // 0: some input is in the padding above or below
#pragma unroll
      for (int k = 0; k < inputs; ++k) {
        const int h = i * g.stride_h + top[k];
        const int64_t at = (static_cast<int64_t>(image) * g.x_h + h) * g.x_w + left[k];
        pixels[k] = x + at * g.x_channels + channel[k];
        inside[k] = h >= 0 && h < g.x_h;
        if (!inside[k]) high = 0;
      }
      const Element* errors = dy + (static_cast<int64_t>(image) * g.y_h + i) * g.y_w * g.y_channels + output;
      const int64_t step = int64_t{g.stride_w} * g.x_channels;
      const auto add = [&](int j, auto guarded) {
        const Some<Element, outputs> error = *reinterpret_cast<const Some<Element, outputs>*>(errors);
#pragma unroll
        for (int k = 0; k < inputs; ++k) {
          const int w = j * g.stride_w + left[k];
          const bool exists = !guarded() || (inside[k] && w >= 0 && w < g.x_w);
          const X own = exists ? pixels[k][j * step] : X{0};
#pragma unroll
          for (int o = 0; o < outputs; ++o) sums.part[k * outputs + o] += product<Sum>(own, error.at[o]);
        }
        errors += g.y_channels;
      };
      for (int j = 0; j < g.y_w;) {
        const int stop = j + sums.before_cut(g.y_w - j), products = stop - j;
        const int bounds[3] = {low < stop ? low : stop, high < stop ? high : stop, stop};
        for (; j < bounds[0]; ++j) add(j, std::true_type{});
#pragma unroll 2
        for (; j < bounds[1]; ++j) add(j, std::false_type{});
        for (; j < bounds[2]; ++j) add(j, std::true_type{});
        sums.next(products);
      }
      if (!pixel_list) sums.end_run();
    }
#pragma unroll
  for (int o = 0; o < outputs; ++o)
#pragma unroll
    for (int k = 0; k < inputs; ++k)
      if (first_input + k < length)
        partial[(static_cast<int64_t>(item) * g.y_channels + output + o) * length + first_input + k] =
            sums[k * outputs + o];
}

template <class Sum, class Total>
__global__ void finish_weight(const Sum* partial, int parts, int64_t count, const float* scale_x, const float* scale_dy,
                              float* dw, bool add) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  Total total = 0;
  for (int part = 0; part < parts; ++part) total += static_cast<Total>(partial[part * count + i]);
  const float scale = scale_x != nullptr ? *scale_x * *scale_dy : 1.0f;
  const float value = static_cast<float>(total) * scale;
  dw[i] = add ? dw[i] + value : value;
}

dim3 grid_of(const Gather& g, int outputs) {
  return dim3(static_cast<unsigned>(g.chunks), blocks_for(g.to_channels, lanes * outputs));
}

template <class From, class Element, class Sum>
void launch_gather(const Gather& g, const void* from, const void* weights, const Output& output, Stream stream) {
  const auto* const own_from = static_cast<const From*>(from);
  const auto* const own_weights = static_cast<const Element*>(weights);
  if (g.group_to % (2 * lanes) == 0)
    OCTET_LAUNCH((direct_gather<2, From, Element, Sum>), grid_of(g, 2), dim3(threads), stream, g, own_from, own_weights,
                 output);
  else
    OCTET_LAUNCH((direct_gather<1, From, Element, Sum>), grid_of(g, 1), dim3(threads), stream, g, own_from, own_weights,
                 output);
}

template <class X, class Element, class Sum>
void launch_weight(const WeightGather& g, const void* x, const void* dy, void* partial, Stream stream) {
  const int64_t length = int64_t{g.kernel_h} * g.kernel_w * g.group_x, groups = (length + inputs - 1) / inputs;
  const auto* const own_x = static_cast<const X*>(x);
  const auto* const own_dy = static_cast<const Element*>(dy);
  const auto grid = [&](int outputs) {
    return dim3(blocks_for(g.y_channels / outputs * groups, threads), static_cast<unsigned>(g.items));
  };
  if (g.group_y % 4 == 0 && reinterpret_cast<uintptr_t>(dy) % (4 * sizeof(Element)) == 0)
    OCTET_LAUNCH((direct_weight<4, X, Element, Sum>), grid(4), dim3(threads), stream, g, own_x, own_dy,
                 static_cast<Sum*>(partial));
  else
    OCTET_LAUNCH((direct_weight<1, X, Element, Sum>), grid(1), dim3(threads), stream, g, own_x, own_dy,
                 static_cast<Sum*>(partial));
}

}  // namespace

void launch_direct_gather(const Gather& g, const void* from, DType type, const void* weights, const Output& output,
                          Stream stream) {
  (is_real(type)       ? launch_gather<float, float, float>
   : type == DType::u8 ? launch_gather<uint8_t, int8_t, int32_t>
                       : launch_gather<int8_t, int8_t, int32_t>)(g, from, weights, output, stream);
}

void launch_direct_weight(const WeightGather& g, const void* x, DType type, const void* dy, void* partial,
                          Stream stream) {
  (is_real(type)       ? launch_weight<float, float, float>
   : type == DType::u8 ? launch_weight<uint8_t, int8_t, int32_t>
                       : launch_weight<int8_t, int8_t, int32_t>)(g, x, dy, partial, stream);
}

void launch_finish_weight(bool real, const void* partial, int parts, int64_t count, const float* scale_x,
                          const float* scale_dy, float* dw, bool add, Stream stream) {
  const dim3 grid(blocks_for(count, threads));
  if (real)
    OCTET_LAUNCH((finish_weight<float, double>), grid, dim3(threads), stream, static_cast<const float*>(partial), parts,
                 count, scale_x, scale_dy, dw, add);
  else
    OCTET_LAUNCH((finish_weight<int32_t, int64_t>), grid, dim3(threads), stream, static_cast<const int32_t*>(partial),
                 parts, count, scale_x, scale_dy, dw, add);
}

}  // namespace octet::cuda
