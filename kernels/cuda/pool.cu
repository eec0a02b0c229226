// Pools. Sums are double and in row order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

struct Geometry {
  int x_h, x_w, y_h, y_w, channels, kernel, stride, pad;
  bool max, count_padding, rectify;
};

// The part of an output pixel's window that lies inside the image.
struct Window {
  int row, column;  // of the whole window's first element
  int top, bottom, left, right;
  __device__ __forceinline__ Window(const Geometry& g, int i, int j)
      : row(i * g.stride - g.pad), column(j * g.stride - g.pad) {
    bottom = row + g.kernel < g.x_h ? row + g.kernel : g.x_h;
    right = column + g.kernel < g.x_w ? column + g.kernel : g.x_w;
    top = row > 0 ? row : 0;
    left = column > 0 ? column : 0;
  }
  // Elements that an average counts.
  __device__ __forceinline__ int size(const Geometry& g) const {
    return g.count_padding ? g.kernel * g.kernel : (bottom - top) * (right - left);
  }
};

// Neighbouring values of memory that this kernel only reads. The type is known when the kernel runs.
template <int width>
__device__ __forceinline__ Values<width> read_values(Width<width> some, const void* from, DType type, int64_t i) {
  if (type == DType::f32) return values_of<DType::f32>(some, read_neighbours<DType::f32>(some, from, i));
  if (type == DType::bf16) return values_of<DType::bf16>(some, read_neighbours<DType::bf16>(some, from, i));
  return values_of<DType::s8>(some, read_neighbours<DType::s8>(some, from, i), type != DType::u8);
}
// Values in the units of a tensor of that type: real numbers as they are, codes rounded to nearest.
template <int width>
__device__ __forceinline__ void write_values(Width<width> some, void* to, DType type, int64_t i,
                                             const Values<width>& values) {
  if (is_real(type)) return write_reals(some, {to, type == DType::bf16}, i, values);
  Some<int8_t, width> codes;
#pragma unroll
  for (int e = 0; e < width; ++e) codes.at[e] = static_cast<int8_t>(static_cast<int>(round_nearest(values.at[e])));
  write_some(static_cast<int8_t*>(to) + i, codes);
}

// Calls visit(column, first channel) for `width` channels each. A block works on one row of pixels of one image, so
// that few indices are divided.
template <int width, class Visit>
__device__ __forceinline__ void along_row(int columns, int channels, const Visit& visit) {
  const int pieces = channels / width;
  for (int i = static_cast<int>(threadIdx.x); i < columns * pieces; i += threads) visit(i / pieces, i % pieces * width);
}

// The largest element of each channel in the window, the first of equal ones in row order. image points at the first
// channel. choices: its number, see PoolForwardCall.
template <int width>
__device__ __forceinline__ Values<width> largest_in(Width<width> some, const Geometry& g, const Window& window,
                                                    const void* x, DType type, int64_t image,
                                                    Some<uint8_t, width>& choices) {
  Values<width> largest = {};
  for (int h = window.top; h < window.bottom; ++h)
    for (int w = window.left; w < window.right; ++w) {
      const Values<width> values = read_values(some, x, type, image + static_cast<int64_t>(h * g.x_w + w) * g.channels);
      const bool first = h == window.top && w == window.left;
      const auto place = static_cast<uint8_t>((h - window.row) * g.kernel + w - window.column);
#pragma unroll
      for (int e = 0; e < width; ++e) {
        const bool better = first || values.at[e] > largest.at[e];
        largest.at[e] = better ? values.at[e] : largest.at[e];
        choices.at[e] = better ? place : choices.at[e];
      }
    }
  return largest;
}

// Maxima of codes, sixteen channels of a pixel a thread. A code and 255 less the number of its pixel make 16 bits: the
// larger of two is the larger code, or of equal ones that of the earlier pixel. sign: 0x80 in each byte of signed
// codes.
__global__ void __launch_bounds__(threads)
    largest_codes(const __grid_constant__ Geometry g, const int8_t* x, uint32_t sign, const float* x_scale, int8_t* y,
                  float* y_scale, uint8_t* choices) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *y_scale = *x_scale;
  const Block block(g.y_h);
  along_row<16>(g.y_w, g.channels, [&](int column, int channel) {
    const Window window(g, block.inner, column);
    const int8_t* const image = x + static_cast<int64_t>(block.outer) * g.x_h * g.x_w * g.channels + channel;
    uint32_t largest[8] = {};  // of two channels each
    for (int h = window.top; h < window.bottom; ++h)
      for (int w = window.left; w < window.right; ++w) {
        const Sixteen codes = read_only(reinterpret_cast<const Sixteen*>(image + (h * g.x_w + w) * g.channels));
        const auto place = static_cast<uint32_t>(255 - ((h - window.row) * g.kernel + w - window.column));
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const uint32_t pair = chosen_bytes(codes.word[k / 2] ^ sign, place, k % 2 == 0 ? 0x1404 : 0x3424);
          largest[k] = larger_halves(largest[k], pair);
        }
      }
    Sixteen values, chosen;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      values.word[k] = chosen_bytes(largest[2 * k], largest[2 * k + 1], 0x7531) ^ sign;
      chosen.word[k] = ~chosen_bytes(largest[2 * k], largest[2 * k + 1], 0x6420);
    }
    const int64_t to =
        ((static_cast<int64_t>(block.outer) * g.y_h + block.inner) * g.y_w + column) * g.channels + channel;
    write_sixteen(y + to, values);
    if (choices != nullptr) write_sixteen(choices + to, chosen);
  });
}

// choices: of maxima, or null.
template <int width>
__global__ void pool(const __grid_constant__ Geometry g, const void* x, DType type, const float* x_scale, void* y,
                     float* y_scale, uint8_t* choices) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && y_scale != nullptr) *y_scale = *x_scale;
  const Width<width> some;
  const Block block(g.y_h);
  const int own_row = block.inner;
  const int64_t own_image = block.outer;
  along_row<width>(g.y_w, g.channels, [&](int column, int channel) {
    const Window window(g, own_row, column);
    const int64_t image = own_image * g.x_h * g.x_w * g.channels + channel;
    const int64_t to = ((own_image * g.y_h + own_row) * g.y_w + column) * g.channels + channel;
    if (g.max) {
      Some<uint8_t, width> chosen = {};
      Values<width> largest = largest_in(some, g, window, x, type, image, chosen);
#pragma unroll
      for (int e = 0; e < width; ++e) {
        if (g.rectify && !(largest.at[e] > 0)) chosen.at[e] = no_choice;
        if (g.rectify && largest.at[e] < 0) largest.at[e] = 0;
      }
      if (choices != nullptr) write_some(choices + to, chosen);
      write_values(some, y, type, to, largest);
      return;
    }
    double sum[width] = {};
    for (int h = window.top; h < window.bottom; ++h)
      for (int w = window.left; w < window.right; ++w) {
        const Values<width> values =
            read_values(some, x, type, image + static_cast<int64_t>(h * g.x_w + w) * g.channels);
#pragma unroll
        for (int e = 0; e < width; ++e) sum[e] += static_cast<double>(values.at[e]);
      }
    Values<width> means;
#pragma unroll
    for (int e = 0; e < width; ++e) means.at[e] = static_cast<float>(sum[e] / static_cast<double>(window.size(g)));
    write_values(some, y, type, to, means);
  });
}

// Elements of dx: the sums over the windows that hold them, in row order.
template <int width>
__global__ void pool_gradient(const __grid_constant__ Geometry g, const uint8_t* choices, const void* dy, DType dy_type,
                              const __grid_constant__ RealOutput dx) {
  const Width<width> some;
  const Block block(g.x_h);
  const int own_row = block.inner;
  const int64_t own_image = block.outer;
  const int first_i = own_row + g.pad < g.kernel ? 0 : (own_row + g.pad - g.kernel) / g.stride + 1;
  along_row<width>(g.x_w, g.channels, [&](int column, int channel) {
    const int first_j = column + g.pad < g.kernel ? 0 : (column + g.pad - g.kernel) / g.stride + 1;
    double sum[width] = {};
    for (int h = first_i; h < g.y_h && h * g.stride - g.pad <= own_row; ++h)
      for (int w = first_j; w < g.y_w && w * g.stride - g.pad <= column; ++w) {
        const int64_t at = ((own_image * g.y_h + h) * g.y_w + w) * g.channels + channel;
        const Values<width> slopes = read_values(some, dy, dy_type, at);
        if (!g.max) {
#pragma unroll
          for (int e = 0; e < width; ++e)
            sum[e] += static_cast<double>(slopes.at[e]) / static_cast<double>(Window(g, h, w).size(g));
          continue;
        }
        const Some<uint8_t, width> chosen = read_some(some, choices + at);
        const int place = (own_row - h * g.stride + g.pad) * g.kernel + column - w * g.stride + g.pad;
#pragma unroll
        for (int e = 0; e < width; ++e)
          if (chosen.at[e] == place) sum[e] += static_cast<double>(slopes.at[e]);
      }
    Values<width> sums;
#pragma unroll
    for (int e = 0; e < width; ++e) sums.at[e] = static_cast<float>(sum[e]);
    write_reals(some, dx, ((own_image * g.x_h + own_row) * g.x_w + column) * g.channels + channel, sums);
  });
}

__global__ void repeat(const __grid_constant__ Geometry g, const void* x, DType type, const float* x_scale, void* y,
                       float* y_scale) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && y_scale != nullptr) *y_scale = *x_scale;
  const Block block(g.y_h);
  const int64_t from_row = static_cast<int64_t>(block.outer) * g.x_h + block.inner / g.kernel;
  const int64_t to_row = static_cast<int64_t>(block.outer) * g.y_h + block.inner;
  along_row<1>(g.y_w, g.channels, [&](int column, int channel) {
    const float value = read_value(x, type, (from_row * g.x_w + column / g.kernel) * g.channels + channel);
    write_value(y, type, (to_row * g.y_w + column) * g.channels + channel, value);
  });
}

// One element of dx: the sum over the pixels that repeat it, in row order.
__global__ void repeat_gradient(const __grid_constant__ Geometry g, const void* dy, DType dy_type,
                                const __grid_constant__ RealOutput dx) {
  const Block block(g.x_h);
  const int64_t from_row = static_cast<int64_t>(block.outer) * g.y_h + block.inner * g.kernel;
  const int64_t to_row = static_cast<int64_t>(block.outer) * g.x_h + block.inner;
  along_row<1>(g.x_w, g.channels, [&](int column, int channel) {
    double sum = 0;
    for (int h = 0; h < g.kernel; ++h)
      for (int w = 0; w < g.kernel; ++w) {
        const int64_t at = ((from_row + h) * g.y_w + column * g.kernel + w) * g.channels + channel;
        sum += static_cast<double>(read_value(dy, dy_type, at));
      }
    write_real(dx, (to_row * g.x_w + column) * g.channels + channel, static_cast<float>(sum));
  });
}

__global__ void global_mean(int64_t outputs, int64_t pixels, int channels, const void* x, DType type,
                            const float* scale, float* y) {
  const int64_t i = thread_index();
  if (i >= outputs) return;
  const int64_t first = i / channels * pixels * channels + i % channels;
  double sum = 0;
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    sum += static_cast<double>(read_value(x, type, first + pixel * channels));
  y[i] = scale == nullptr ? static_cast<float>(sum / static_cast<double>(pixels))
                          : static_cast<float>(sum) * (*scale / static_cast<float>(pixels));
}

__global__ void global_mean_gradient(int64_t count, int64_t pixels, int channels, const void* dy, DType dy_type,
                                     const __grid_constant__ RealOutput dx) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const int64_t from = i / (pixels * channels) * channels + i % channels;
  write_real(dx, i, read_value(dy, dy_type, from) / static_cast<float>(pixels));
}

Geometry geometry(const PoolProblem& p) {
  const auto extent = [](int64_t x) { return static_cast<int>(x); };
  return {extent(p.x.h), extent(p.x.w), extent(p.y.h),           extent(p.y.w),   extent(p.x.c), p.kernel,
          p.stride,      p.pad,         p.kind == PoolKind::max, p.count_padding, p.rectify};
}

}  // namespace

void CudaBackend::compute(const PoolForwardCall& call) {
  const auto& [p, x, y, choices] = call;
  const dim3 grid = grid_of(p.y.h, p.y.n);
  const DType type = x.values.dtype;
  const auto fits = [&](int width) {
    return p.x.c % width == 0 && neighbours_align(width, x.values.data, type) &&
           neighbours_align(width, y.values.data, type) && neighbours_align(width, choices.data, DType::u8);
  };
  const auto launch = [&]<int width>(Width<width>) {
    OCTET_LAUNCH((pool<width>), grid, dim3(threads), stream_, geometry(p), x.values.data, type, x.scale, y.values.data,
                 y.scale, choices.u8());
  };
  if (p.kind == PoolKind::repeat)
    OCTET_LAUNCH(repeat, grid, dim3(threads), stream_, geometry(p), x.values.data, type, x.scale, y.values.data,
                 y.scale);
  else if (p.kind == PoolKind::max && !p.rectify && p.kernel <= most_choices && !x.real() && fits(16))
    OCTET_LAUNCH(largest_codes, grid, dim3(threads), stream_, geometry(p), x.values.s8(),
                 type == DType::s8 ? 0x80808080u : 0u, x.scale, y.values.s8(), y.scale, choices.u8());
  else if (fits(4))
    launch(Width<4>{});
  else
    launch(Width<1>{});
}

void CudaBackend::compute(const PoolBackwardCall& call) {
  const auto& [p, choices, dy, dx] = call;
  const RealOutput to = real_output(dx);
  const dim3 grid = grid_of(p.x.h, p.x.n);
  if (p.kind == PoolKind::repeat) {
    OCTET_LAUNCH(repeat_gradient, grid, dim3(threads), stream_, geometry(p), dy.data, dy.dtype, to);
    return;
  }
  const auto fits = [&](int width) {
    return p.x.c % width == 0 && neighbours_align(width, dy.data, dy.dtype) && neighbours_align(width, to) &&
           neighbours_align(width, choices.data, DType::u8);
  };
  const auto launch = [&]<int width>(Width<width>) {
    OCTET_LAUNCH((pool_gradient<width>), grid, dim3(threads), stream_, geometry(p), choices.u8(), dy.data, dy.dtype,
                 to);
  };
  if (fits(8))
    launch(Width<8>{});
  else if (fits(4))
    launch(Width<4>{});
  else
    launch(Width<1>{});
}

void CudaBackend::compute(const GlobalPoolForwardCall& call) {
  const auto& [x, y] = call;
  const Shape from = x.values.shape;
  OCTET_LAUNCH_EACH(global_mean, y.elements(), threads, stream_, y.elements(), from.h * from.w,
                    static_cast<int>(from.c), x.values.data, x.values.dtype, x.scale, y.f32());
}

void CudaBackend::compute(const GlobalPoolBackwardCall& call) {
  const auto& [dy, dx] = call;
  const Shape to = dx.tensor.shape;
  OCTET_LAUNCH_EACH(global_mean_gradient, to.elements(), threads, stream_, to.elements(), to.h * to.w,
                    static_cast<int>(to.c), dy.data, dy.dtype, real_output(dx));
}

}  // namespace octet::cuda
