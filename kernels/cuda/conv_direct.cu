// Convolutions without tensor cores: depthwise, grouped, and real-valued ones. A block makes one chunk of 64 pixels for
// 32 output channels; sums of real values go over taps and channels in the order of the CPU's kernels, pads included.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/tile_pixels.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int lanes = 32, together = 16, threads = lanes * together;

template <class Element, class Sum>
__device__ __forceinline__ Sum product(Element x, Element w) {
  return static_cast<Sum>(x) * static_cast<Sum>(w);
}

// What one thread makes: four pixels of the chunk for one output channel.
constexpr int rows = chunk_pixels / together;
struct Rows {
  Pixel pixel[rows];
  __device__ __forceinline__ Rows(const Gather& g, int chunk) {
#pragma unroll
    for (int i = 0; i < rows; ++i) pixel[i] = pixel_of(g, chunk, row(i));
  }
  __device__ __forceinline__ static int row(int i) { return static_cast<int>(threadIdx.x) / lanes + i * together; }
};

// Sums of one thread; real ones are cut as shared/sums.h says.
template <class Sum, int count>
struct CutSums {
  Sum part[count] = {}, folded[count] = {};
  int in_run = 0, since = 0;
  __device__ __forceinline__ void begin_run() { in_run = 0; }
  __device__ __forceinline__ void next_product() {
    if constexpr (std::is_same_v<Sum, float>) {
      ++since;
      if (++in_run % fold_products == 0) fold();
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

// Adds the products of `channels` input channels from first_channel on, over all taps; weights point at the lane's
// first.
template <class Element, class Sum>
__device__ __forceinline__ void add_products(const Gather& g, const Rows& of, const Element* from,
                                             const Element* weights, int first_channel, int channels,
                                             CutSums<Sum, rows>& sums) {
  const bool row_is_run = g.group_from == g.from_channels && g.w.taps > 1 && g.w.shift[1] == g.w.shift[0] + 1;
  for (int v = 0; v < g.h.taps; ++v)
    for (int u = 0; u < g.w.taps; ++u) {
      if (u == 0 || !row_is_run) sums.begin_run();
      const Element* x[rows];  // null: in the padding
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        const Pixel& pixel = of.pixel[i];
        const int h = pixel.i * g.h.from_step + g.h.shift[v], w = pixel.j * g.w.from_step + g.w.shift[u];
        const bool inside = pixel.inside && h >= 0 && h < g.h.from && w >= 0 && w < g.w.from;
        const int64_t at = (static_cast<int64_t>(pixel.image) * g.h.from + h) * g.w.from + w;
        x[i] = inside ? from + at * g.from_channels + first_channel : nullptr;
      }
      const Element* const tap =
          weights + static_cast<int64_t>(g.h.kernel[v] * g.kernel_w + g.w.kernel[u]) * g.tap_step;
      for (int c = 0; c < channels; ++c) {
        const Element w = tap[static_cast<int64_t>(c) * g.channel_step];
#pragma unroll
        for (int i = 0; i < rows; ++i) sums.part[i] += product<Element, Sum>(x[i] != nullptr ? x[i][c] : Element{0}, w);
        sums.next_product();
      }
      if (u == g.w.taps - 1 || !row_is_run) sums.end_run();
    }
}

template <class Element, class Sum>
__global__ void __launch_bounds__(threads)
    direct_gather(const __grid_constant__ Gather g, const Element* from, const Element* weights,
                  const __grid_constant__ Output output) {
  __shared__ float values[chunk_pixels][lanes + 1];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int chunk = static_cast<int>(blockIdx.x), n = static_cast<int>(blockIdx.y) * lanes + lane;
  const bool exists = n < g.to_channels;
  if (exists) {
    const int group = n / g.group_to, own = n % g.group_to;
    const Rows of(g, chunk);
    CutSums<Sum, rows> sums;
    add_products(g, of, from,
                 weights + static_cast<int64_t>(group) * g.weight_group + static_cast<int64_t>(own) * g.lane_step,
                 group * g.group_from, g.group_from, sums);
    const float factor =
        output.scale != nullptr ? *output.scale * output.weight_scale[output.per_channel ? n : 0] : 1.0f;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const float value = static_cast<float>(sums[i]) * factor;
      values[Rows::row(i)][lane] = value;
      if (of.pixel[i].inside) write_real(output.to, output.bf16, output.add, output_offset(g, of.pixel[i]) + n, value);
    }
  }
  if (output.moments == nullptr) return;
  __syncthreads();
  if (threadIdx.x >= lanes || !exists) return;
  write_chunk_moments(g, chunk, n, output.moments, [&](int row) { return values[row][lane]; });
}

__global__ void __launch_bounds__(threads)
    direct_gather_per_channel(const __grid_constant__ Gather g, const int8_t* from, const int8_t* weights,
                              const __grid_constant__ Output output) {
  const int n = static_cast<int>(blockIdx.y) * lanes + static_cast<int>(threadIdx.x) % lanes;
  if (n >= g.to_channels) return;
  const int group = n / g.group_to, own = n % g.group_to;
  const Rows of(g, static_cast<int>(blockIdx.x));
  float values[rows] = {};
  for (int c = 0; c < g.group_from; ++c) {
    const int channel = group * g.group_from + c;
    CutSums<int32_t, rows> sums;
    add_products(g, of, from,
                 weights + static_cast<int64_t>(group) * g.weight_group + static_cast<int64_t>(own) * g.lane_step +
                     static_cast<int64_t>(c) * g.channel_step,
                 channel, 1, sums);
    const float factor = *output.scale * output.weight_scale[channel];
#pragma unroll
    for (int i = 0; i < rows; ++i) values[i] += static_cast<float>(sums[i]) * factor;
  }
#pragma unroll
  for (int i = 0; i < rows; ++i)
    if (of.pixel[i].inside)
      write_real(output.to, output.bf16, output.add, output_offset(g, of.pixel[i]) + n, values[i]);
}

// One weight's gradient over the pixels of one item, rows of dy in order.
template <class Element, class Sum>
__global__ void __launch_bounds__(threads)
    direct_weight(const __grid_constant__ WeightGather g, const Element* x, const Element* dy, Sum* partial) {
  const int taps = g.kernel_h * g.kernel_w, count = g.y_channels * taps * g.group_x;
  const int weight = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (weight >= count) return;
  const int input = weight % g.group_x, tap = weight / g.group_x % taps, output = weight / (g.group_x * taps);
  const int channel = output / g.group_y * g.group_x + input;
  const int top = tap / g.kernel_w * g.dilation_h - g.pad_h, left = tap % g.kernel_w * g.dilation_w - g.pad_w;
  const int item = static_cast<int>(blockIdx.y), first = item * g.item_images;
  const int end = first + g.item_images < g.images ? first + g.item_images : g.images;
  const bool pixel_list = g.x_h == 1 && g.x_w == 1 && taps == 1;
  CutSums<Sum, 1> sum;
  for (int image = first; image < end; ++image)
    for (int i = 0; i < g.y_h; ++i) {
      if (!pixel_list) sum.begin_run();
      for (int j = 0; j < g.y_w; ++j) {
        const int h = i * g.stride_h + top, w = j * g.stride_w + left;
        const bool inside = h >= 0 && h < g.x_h && w >= 0 && w < g.x_w;
        const int64_t at = (static_cast<int64_t>(image) * g.x_h + h) * g.x_w + w;
        const int64_t error = (static_cast<int64_t>(image) * g.y_h + i) * g.y_w + j;
        sum.part[0] += product<Element, Sum>(inside ? x[at * g.x_channels + channel] : Element{0},
                                             dy[error * g.y_channels + output]);
        sum.next_product();
      }
      if (!pixel_list) sum.end_run();
    }
  partial[static_cast<int64_t>(item) * count + weight] = sum[0];
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

dim3 grid_of(const Gather& g) { return dim3(static_cast<unsigned>(g.chunks), blocks_for(g.to_channels, lanes)); }

}  // namespace

void launch_direct_gather(const Gather& g, bool real, const void* from, const void* weights, const Output& output,
                          Stream stream) {
  if (real)
    OCTET_LAUNCH((direct_gather<float, float>), grid_of(g), dim3(threads), stream, g, static_cast<const float*>(from),
                 static_cast<const float*>(weights), output);
  else
    OCTET_LAUNCH((direct_gather<int8_t, int32_t>), grid_of(g), dim3(threads), stream, g,
                 static_cast<const int8_t*>(from), static_cast<const int8_t*>(weights), output);
}

void launch_direct_gather_per_channel(const Gather& g, const int8_t* from, const int8_t* weights, const Output& output,
                                      Stream stream) {
  OCTET_LAUNCH(direct_gather_per_channel, grid_of(g), dim3(threads), stream, g, from, weights, output);
}

void launch_direct_weight(const WeightGather& g, bool real, const void* x, const void* dy, void* partial,
                          Stream stream) {
  const int64_t count = int64_t{g.y_channels} * g.kernel_h * g.kernel_w * g.group_x;
  const dim3 grid(blocks_for(count, threads), static_cast<unsigned>(g.items));
  if (real)
    OCTET_LAUNCH((direct_weight<float, float>), grid, dim3(threads), stream, g, static_cast<const float*>(x),
                 static_cast<const float*>(dy), static_cast<float*>(partial));
  else
    OCTET_LAUNCH((direct_weight<int8_t, int32_t>), grid, dim3(threads), stream, g, static_cast<const int8_t*>(x),
                 static_cast<const int8_t*>(dy), static_cast<int32_t*>(partial));
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
