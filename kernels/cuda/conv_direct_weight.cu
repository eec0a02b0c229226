// Weight gradients without tensor cores. A thread computes the gradients of some neighbouring outputs' weights,
// `inputs` each, over the pixels of one item, rows of dy in order.
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/cut_sums.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 128;

// Threads of one item, each for `outputs` outputs.
__host__ __device__ constexpr int64_t weight_threads(const WeightGather& g, int outputs, int inputs) {
  const int64_t length = int64_t{g.kernel_h} * g.kernel_w * g.group_x;
  return g.y_channels / outputs * ((length + inputs - 1) / inputs);
}

// The thread's weights: where each reads x, relative to the input pixel of an output without padding.
template <int inputs>
struct Places {
  int top[inputs], left[inputs], channel[inputs];
  int low = 0, high;  // outputs of a row that meet x inside its width, with every weight
  __device__ __forceinline__ Places(const WeightGather& g, int output, int first_input, int length) : high(g.y_w) {
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
      const int place = first_input + k < length ? first_input + k : length - 1, tap = place / g.group_x;
      top[k] = tap / g.kernel_w * g.dilation_h - g.pad_h;
      left[k] = tap % g.kernel_w * g.dilation_w - g.pad_w;
      channel[k] = output / g.group_y * g.group_x + place % g.group_x;
      const int before = left[k] < 0 ? (-left[k] + g.stride_w - 1) / g.stride_w : 0;
      const int beyond = (g.x_w - left[k] + g.stride_w - 1) / g.stride_w;
      low = before > low ? before : low;
      high = beyond < high ? beyond : high;
    }
  }
};

// Adds the products of row i of an image's grad_output, which begins at the thread's first output. padded: every
// element meets x with every weight. run: the weights meet neighbouring elements of x.
template <int outputs, int inputs, bool padded, bool run, class X, class Element, class Sum>
__device__ __forceinline__ void add_row(const WeightGather& g, const Places<inputs>& of, const X* x, int image, int i,
                                        const Element* grad_output, CutSums<Sum, inputs * outputs>& sums) {
  const X* pixels[inputs];  // where the row's first output meets x, which may lie outside
  bool inside[inputs];
  int whole = of.high;  // end of the outputs that meet x with every weight; 0: some weight lies above or below x
#pragma unroll
  for (int k = 0; k < inputs; ++k) {
    const int h = i * g.stride_h + of.top[k];
    const int64_t at = (static_cast<int64_t>(image) * g.x_h + h) * g.x_w + of.left[k];
    pixels[k] = x + at * g.x_channels + of.channel[k];
    inside[k] = padded || (h >= 0 && h < g.x_h);
    if (!inside[k]) whole = 0;
  }
  const int step = g.stride_w * g.x_channels;
  const auto add = [&](int j, auto guarded) {
    const Some<Element, outputs> gradient = read_some(Width<outputs>{}, grad_output);
#pragma unroll
    for (int k = 0; k < inputs; ++k) {
      const int w = j * g.stride_w + of.left[k];
      const bool exists = !guarded() || (inside[k] && w >= 0 && w < g.x_w);
      const X own = exists ? (run ? pixels[0][j * step + k] : pixels[k][j * step]) : X{0};
#pragma unroll
      for (int o = 0; o < outputs; ++o) sums.part[k * outputs + o] += product<Sum>(own, gradient.at[o]);
    }
    grad_output += g.y_channels;
  };
  for (int j = 0; j < g.y_w;) {
    const int stop = j + sums.before_cut(g.y_w - j), products = stop - j;
    if constexpr (padded) {
#pragma unroll 4
      for (; j < stop; ++j) add(j, std::false_type{});
    } else {
      const int bounds[3] = {of.low < stop ? of.low : stop, whole < stop ? whole : stop, stop};
      for (; j < bounds[0]; ++j) add(j, std::true_type{});
#pragma unroll 2
      for (; j < bounds[1]; ++j) add(j, std::false_type{});
      for (; j < bounds[2]; ++j) add(j, std::true_type{});
    }
    sums.next(products);
  }
}

template <int outputs, int inputs, bool padded, bool run, class X, class Element, class Sum>
__global__ void __launch_bounds__(threads)
    direct_weight(const __grid_constant__ WeightGather g, const X* x, const Element* dy, Sum* partial) {
  const Block block(blocks_for(weight_threads(g, outputs, inputs), threads));
  const int taps = g.kernel_h * g.kernel_w, length = taps * g.group_x, output_groups = g.y_channels / outputs;
  const int thread = block.inner * threads + static_cast<int>(threadIdx.x);
  const int output = thread % output_groups * outputs, first_input = thread / output_groups * inputs;
  if (first_input >= length) return;
  const Places<inputs> of(g, output, first_input, length);
  const int item = block.outer, first = item * g.item_images;
  const int end = first + g.item_images < g.images ? first + g.item_images : g.images;
  const bool pixel_list = g.x_h == 1 && g.x_w == 1 && taps == 1;
  CutSums<Sum, inputs * outputs> sums;
  for (int image = first; image < end; ++image)
    for (int i = 0; i < g.y_h; ++i) {
      if (!pixel_list) sums.begin_run();
      const Element* const grad_output = dy + (static_cast<int64_t>(image) * g.y_h + i) * g.y_w * g.y_channels + output;
      add_row<outputs, inputs, padded, run>(g, of, x, image, i, grad_output, sums);
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

// dw (+)= the sum of all parts * scale_x * scale_dy.
template <class Sum, class Total>
__global__ void finish_weight(const Sum* partial, int parts, int64_t count, const float* scale_x, const float* scale_dy,
                              float* dw, bool add) {
  const int64_t i = thread_index();
  if (i >= count) return;
  Total total = 0;
  for (int part = 0; part < parts; ++part) total += static_cast<Total>(partial[part * count + i]);
  const float scale = scale_x != nullptr ? *scale_x * *scale_dy : 1.0f;
  const float value = static_cast<float>(total) * scale;
  dw[i] = add ? dw[i] + value : value;
}

template <bool padded, class X, class Element, class Sum>
void launch_weight(const WeightGather& g, const void* x, const void* dy, void* partial, Stream stream) {
  const auto launch = [&]<int outputs, int inputs>(Width<outputs>, Width<inputs>) {
    constexpr bool run = inputs > 4;
    OCTET_LAUNCH((direct_weight<outputs, inputs, padded, run, X, Element, Sum>),
                 grid_of(blocks_for(weight_threads(g, outputs, inputs), threads), g.items), dim3(threads), stream, g,
                 static_cast<const X*>(x), static_cast<const Element*>(dy), static_cast<Sum*>(partial));
  };
  const bool fours = g.group_y % 4 == 0 && reinterpret_cast<uintptr_t>(dy) % (4 * sizeof(Element)) == 0;
  // A row of taps meets neighbouring elements of padded images. First layers have 9 or 21 in a row.
  const int row = padded && g.group_x == g.x_channels && g.dilation_w == 1 ? g.kernel_w * g.group_x : 1;
  if constexpr (padded) {
    if (fours && row % 7 == 0) return launch(Width<4>{}, Width<7>{});
    if (fours && row % 9 == 0) return launch(Width<4>{}, Width<9>{});
  }
  if (fours)
    launch(Width<4>{}, Width<4>{});
  else
    launch(Width<1>{}, Width<4>{});
}

}  // namespace

void launch_direct_weight(const WeightGather& g, const void* x, DType type, const void* dy, void* partial,
                          Stream stream) {
  (is_real(type)       ? launch_weight<true, float, float, float>
   : type == DType::u8 ? launch_weight<false, uint8_t, int8_t, int32_t>
                       : launch_weight<false, int8_t, int8_t, int32_t>)(g, x, dy, partial, stream);
}

void launch_finish_weight(bool real, const void* partial, int parts, int64_t count, const float* scale_x,
                          const float* scale_dy, Into dw, Stream stream) {
  if (real)
    OCTET_LAUNCH_EACH((finish_weight<float, double>), count, threads, stream, static_cast<const float*>(partial), parts,
                      count, scale_x, scale_dy, dw.tensor.f32(), dw.add);
  else
    OCTET_LAUNCH_EACH((finish_weight<int32_t, int64_t>), count, threads, stream, static_cast<const int32_t*>(partial),
                      parts, count, scale_x, scale_dy, dw.tensor.f32(), dw.add);
}

}  // namespace octet::cuda
