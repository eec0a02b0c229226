// Pools. Sums are double and in row order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/checks.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

struct Geometry {
  int x_h, x_w, y_h, y_w, channels, kernel, stride, pad;
  bool max, count_padding, rectify;
};

// The part of an output pixel's window that lies inside the image.
struct Window {
  int top, bottom, left, right;
  __device__ __forceinline__ Window(const Geometry& g, int i, int j) {
    top = i * g.stride - g.pad;
    left = j * g.stride - g.pad;
    bottom = top + g.kernel < g.x_h ? top + g.kernel : g.x_h;
    right = left + g.kernel < g.x_w ? left + g.kernel : g.x_w;
    top = top > 0 ? top : 0;
    left = left > 0 ? left : 0;
  }
  // Elements that an average counts.
  __device__ __forceinline__ int size(const Geometry& g) const {
    return g.count_padding ? g.kernel * g.kernel : (bottom - top) * (right - left);
  }
};

// The pixel of the first of the largest elements in row order; image points at the channel's first.
__device__ __forceinline__ int largest_in(const Geometry& g, const Window& window, const void* x, DType type,
                                          int64_t image) {
  int best = window.top * g.x_w + window.left;
  float largest = read_value(x, type, image + static_cast<int64_t>(best) * g.channels);
  for (int h = window.top; h < window.bottom; ++h)
    for (int w = window.left; w < window.right; ++w) {
      const float value = read_value(x, type, image + static_cast<int64_t>(h * g.x_w + w) * g.channels);
      if (value > largest) {
        largest = value;
        best = h * g.x_w + w;
      }
    }
  return best;
}

// Calls visit(column, channel). A block works on one row of pixels of one image, so that few indices are divided.
template <class Visit>
__device__ __forceinline__ void along_row(int width, int channels, const Visit& visit) {
  for (int i = static_cast<int>(threadIdx.x); i < width * channels; i += threads) visit(i / channels, i % channels);
}

constexpr uint16_t no_choice = 0xFFFF;  // a maximum that is not above 0 and is rectified: no gradient passes

// choices (of maxima, or null): which pixel of its window, padding included, each output took. y null: only they are
// written.
__global__ void pool(const __grid_constant__ Geometry g, const void* x, DType type, const float* x_scale, void* y,
                     float* y_scale, uint16_t* choices) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && y_scale != nullptr) *y_scale = *x_scale;
  const Block block(g.y_h);
  const int own_row = block.inner;
  const int64_t own_image = block.outer;
  along_row(g.y_w, g.channels, [&](int column, int channel) {
    const Window window(g, own_row, column);
    const int64_t image = own_image * g.x_h * g.x_w * g.channels + channel;
    const int64_t to = ((own_image * g.y_h + own_row) * g.y_w + column) * g.channels + channel;
    if (g.max) {
      const int best = largest_in(g, window, x, type, image);
      const int h = best / g.x_w - (own_row * g.stride - g.pad), w = best % g.x_w - (column * g.stride - g.pad);
      const float largest = read_value(x, type, image + static_cast<int64_t>(best) * g.channels);
      if (choices != nullptr)
        choices[to] = g.rectify && !(largest > 0) ? no_choice : static_cast<uint16_t>(h * g.kernel + w);
      if (y != nullptr) write_value(y, type, to, g.rectify && largest < 0 ? 0.0f : largest);
      return;
    }
    double sum = 0;
    for (int h = window.top; h < window.bottom; ++h)
      for (int w = window.left; w < window.right; ++w)
        sum += static_cast<double>(read_value(x, type, image + static_cast<int64_t>(h * g.x_w + w) * g.channels));
    write_value(y, type, to, static_cast<float>(sum / static_cast<double>(window.size(g))));
  });
}

// One element of dx: the sum over the windows that hold it, in row order. choices: what pool() wrote.
__global__ void pool_gradient(const __grid_constant__ Geometry g, const uint16_t* choices, const void* dy,
                              DType dy_type, const __grid_constant__ RealOutput dx) {
  const Block block(g.x_h);
  const int own_row = block.inner;
  const int64_t own_image = block.outer;
  const int first_i = own_row + g.pad < g.kernel ? 0 : (own_row + g.pad - g.kernel) / g.stride + 1;
  along_row(g.x_w, g.channels, [&](int column, int channel) {
    const int first_j = column + g.pad < g.kernel ? 0 : (column + g.pad - g.kernel) / g.stride + 1;
    double sum = 0;
    for (int h = first_i; h < g.y_h && h * g.stride - g.pad <= own_row; ++h)
      for (int w = first_j; w < g.y_w && w * g.stride - g.pad <= column; ++w) {
        const int64_t at = ((own_image * g.y_h + h) * g.y_w + w) * g.channels + channel;
        if (!g.max)
          sum += static_cast<double>(read_value(dy, dy_type, at)) / static_cast<double>(Window(g, h, w).size(g));
        else if (choices[at] == (own_row - h * g.stride + g.pad) * g.kernel + column - w * g.stride + g.pad)
          sum += static_cast<double>(read_value(dy, dy_type, at));
      }
    const int64_t to = ((own_image * g.x_h + own_row) * g.x_w + column) * g.channels + channel;
    write_real(dx, to, static_cast<float>(sum));
  });
}

__global__ void repeat(const __grid_constant__ Geometry g, const void* x, DType type, const float* x_scale, void* y,
                       float* y_scale) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && y_scale != nullptr) *y_scale = *x_scale;
  const Block block(g.y_h);
  const int64_t from_row = static_cast<int64_t>(block.outer) * g.x_h + block.inner / g.kernel;
  const int64_t to_row = static_cast<int64_t>(block.outer) * g.y_h + block.inner;
  along_row(g.y_w, g.channels, [&](int column, int channel) {
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
  along_row(g.x_w, g.channels, [&](int column, int channel) {
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

void launch_forward(const PoolProblem& problem, QTensor x, const float* x_scale, QTensor y, uint16_t* choices,
                    Stream stream) {
  OCTET_LAUNCH(pool, grid_of(problem.y.h, problem.y.n), dim3(threads), stream, geometry(problem), x.values.data,
               x.values.dtype, x_scale, y.values.data, y.scale, choices);
}

}  // namespace

void CudaBackend::pool_forward(const PoolProblem& problem, QTensor x, QTensor y) {
  check_pool_forward(problem, x, y);
  if (problem.kind == PoolKind::repeat)
    OCTET_LAUNCH(repeat, grid_of(problem.y.h, problem.y.n), dim3(threads), stream_, geometry(problem), x.values.data,
                 x.values.dtype, x.scale, y.values.data, y.scale);
  else
    launch_forward(problem, x, x.scale, y, nullptr, stream_);
}

void CudaBackend::pool_backward(const PoolProblem& problem, QTensor x, QTensor, Tensor dy, Into dx) {
  check_pool(problem, dx.tensor.shape, dy.shape);
  REQUIRE(is_real(dy.dtype), "give dy in f32 or bf16", "a pool's gradient is codes");
  REQUIRE(problem.kernel < 256, "choose a smaller kernel", "a pool of ", problem.kernel, "x", problem.kernel);
  if (problem.kind == PoolKind::repeat) {
    OCTET_LAUNCH(repeat_gradient, grid_of(problem.x.h, problem.x.n), dim3(threads), stream_, geometry(problem), dy.data,
                 dy.dtype, real_output(dx, "a pool's dx"));
    return;
  }
  uint16_t* choices = nullptr;
  if (problem.kind == PoolKind::max) {
    choices = partial_.get<uint16_t>(problem.y.elements());
    launch_forward(problem, x, nullptr, {}, choices, stream_);
  }
  OCTET_LAUNCH(pool_gradient, grid_of(problem.x.h, problem.x.n), dim3(threads), stream_, geometry(problem), choices,
               dy.data, dy.dtype, real_output(dx, "a pool's dx"));
}

void CudaBackend::global_pool_forward(QTensor x, Tensor y) {
  const Shape from = x.values.shape;
  REQUIRE(y.shape == (Shape{from.n, 1, 1, from.c}) && y.dtype == DType::f32, "give an f32 output of (N, 1, 1, C)",
          "a global pool's output has another shape or type");
  OCTET_LAUNCH_EACH(global_mean, y.elements(), threads, stream_, y.elements(), from.h * from.w,
                    static_cast<int>(from.c), x.values.data, x.values.dtype, x.scale, y.f32());
}

void CudaBackend::global_pool_backward(Tensor dy, Into dx) {
  const Shape to = dx.tensor.shape;
  REQUIRE(dy.shape == (Shape{to.n, 1, 1, to.c}) && is_real(dy.dtype), "give f32 or bf16 gradients of (N, 1, 1, C)",
          "a global pool's tensors do not fit each other");
  OCTET_LAUNCH_EACH(global_mean_gradient, to.elements(), threads, stream_, to.elements(), to.h * to.w,
                    static_cast<int>(to.c), dy.data, dy.dtype, real_output(dx, "a global pool's dx"));
}

}  // namespace octet::cuda
