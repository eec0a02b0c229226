// Pools. Sums are double and in row order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

struct Geometry {
  int x_h, x_w, y_h, y_w, channels, kernel, stride, pad;
  bool max, count_padding;
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

__device__ __forceinline__ void write_code_or_real(void* to, DType type, int64_t i, float value) {
  if (is_real(type))
    write_real(to, type == DType::bf16, false, i, value);
  else
    write_code(to, i, static_cast<int>(round_nearest(value)));
}

// A block works on one row of pixels of one image: there are too many elements to divide each one's number.
struct Row {
  int64_t image;
  int row;
  __device__ __forceinline__ explicit Row(int height)
      : image(blockIdx.x / static_cast<unsigned>(height)),
        row(static_cast<int>(blockIdx.x % static_cast<unsigned>(height))) {}
};
// visit(column, channel)
template <class Visit>
__device__ __forceinline__ void along_row(int width, int channels, const Visit& visit) {
  for (int i = static_cast<int>(threadIdx.x); i < width * channels; i += threads) visit(i / channels, i % channels);
}

// choices (max, or null): which pixel of its window, padding included, each output took.
__global__ void pool_forward(const __grid_constant__ Geometry g, const void* x, DType type, const float* x_scale,
                             void* y, float* y_scale, uint16_t* choices) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && y_scale != nullptr) *y_scale = *x_scale;
  const Row own(g.y_h);
  along_row(g.y_w, g.channels, [&](int column, int channel) {
    const Window window(g, own.row, column);
    const int64_t image = own.image * g.x_h * g.x_w * g.channels + channel;
    const int64_t to = ((own.image * g.y_h + own.row) * g.y_w + column) * g.channels + channel;
    if (g.max) {
      const int best = largest_in(g, window, x, type, image);
      const int h = best / g.x_w - (own.row * g.stride - g.pad), w = best % g.x_w - (column * g.stride - g.pad);
      if (choices != nullptr) choices[to] = static_cast<uint16_t>(h * g.kernel + w);
      if (y != nullptr)
        write_code_or_real(y, type, to, read_value(x, type, image + static_cast<int64_t>(best) * g.channels));
      return;
    }
    double sum = 0;
    for (int h = window.top; h < window.bottom; ++h)
      for (int w = window.left; w < window.right; ++w)
        sum += static_cast<double>(read_value(x, type, image + static_cast<int64_t>(h * g.x_w + w) * g.channels));
    write_code_or_real(y, type, to, static_cast<float>(sum / static_cast<double>(window.size(g))));
  });
}

// One element of dx: the windows that hold it, in row order. choices: as pool_forward leaves them.
__global__ void pool_backward(const __grid_constant__ Geometry g, const uint16_t* choices, const void* dy,
                              DType dy_type, void* dx, bool bf16, bool add) {
  const Row own(g.x_h);
  const int first_i = own.row + g.pad < g.kernel ? 0 : (own.row + g.pad - g.kernel) / g.stride + 1;
  along_row(g.x_w, g.channels, [&](int column, int channel) {
    const int first_j = column + g.pad < g.kernel ? 0 : (column + g.pad - g.kernel) / g.stride + 1;
    double sum = 0;
    for (int h = first_i; h < g.y_h && h * g.stride - g.pad <= own.row; ++h)
      for (int w = first_j; w < g.y_w && w * g.stride - g.pad <= column; ++w) {
        const int64_t at = ((own.image * g.y_h + h) * g.y_w + w) * g.channels + channel;
        if (!g.max)
          sum += static_cast<double>(read_value(dy, dy_type, at)) / static_cast<double>(Window(g, h, w).size(g));
        else if (choices[at] == (own.row - h * g.stride + g.pad) * g.kernel + column - w * g.stride + g.pad)
          sum += static_cast<double>(read_value(dy, dy_type, at));
      }
    const int64_t to = ((own.image * g.x_h + own.row) * g.x_w + column) * g.channels + channel;
    write_real(dx, bf16, add, to, static_cast<float>(sum));
  });
}

__global__ void global_pool_forward(int64_t outputs, int64_t pixels, int channels, const void* x, DType type,
                                    const float* scale, float* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= outputs) return;
  const int64_t first = i / channels * pixels * channels + i % channels;
  double sum = 0;
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    sum += static_cast<double>(read_value(x, type, first + pixel * channels));
  y[i] = scale == nullptr ? static_cast<float>(sum / static_cast<double>(pixels))
                          : static_cast<float>(sum) * (*scale / static_cast<float>(pixels));
}

__global__ void global_pool_backward(int64_t count, int64_t pixels, int channels, const void* dy, DType dy_type,
                                     void* dx, bool bf16, bool add) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const int64_t from = i / (pixels * channels) * channels + i % channels;
  write_real(dx, bf16, add, i, read_value(dy, dy_type, from) / static_cast<float>(pixels));
}

Geometry geometry(const PoolProblem& p) {
  return {static_cast<int>(p.x.h),
          static_cast<int>(p.x.w),
          static_cast<int>(p.y.h),
          static_cast<int>(p.y.w),
          static_cast<int>(p.x.c),
          p.kernel,
          p.stride,
          p.pad,
          p.max,
          p.count_padding};
}

}  // namespace

void launch_pool_forward(const PoolProblem& problem, const void* x, DType type, const float* x_scale, void* y,
                         float* y_scale, uint16_t* choices, Stream stream) {
  const dim3 rows(static_cast<unsigned>(problem.y.n * problem.y.h));
  OCTET_LAUNCH(pool_forward, rows, dim3(threads), stream, geometry(problem), x, type, x_scale, y, y_scale, choices);
}

void launch_pool_backward(const PoolProblem& problem, const uint16_t* choices, const void* dy, DType dy_type, void* dx,
                          bool bf16, bool add, Stream stream) {
  const dim3 rows(static_cast<unsigned>(problem.x.n * problem.x.h));
  OCTET_LAUNCH(pool_backward, rows, dim3(threads), stream, geometry(problem), choices, dy, dy_type, dx, bf16, add);
}

void launch_global_pool_forward(Shape shape, const void* x, DType type, const float* scale, float* y, Stream stream) {
  const int64_t outputs = shape.n * shape.c;
  OCTET_LAUNCH(global_pool_forward, dim3(blocks_for(outputs, threads)), dim3(threads), stream, outputs,
               shape.h * shape.w, static_cast<int>(shape.c), x, type, scale, y);
}

void launch_global_pool_backward(Shape shape, const void* dy, DType dy_type, void* dx, bool bf16, bool add,
                                 Stream stream) {
  const int64_t count = shape.elements();
  OCTET_LAUNCH(global_pool_backward, dim3(blocks_for(count, threads)), dim3(threads), stream, count, shape.h * shape.w,
               static_cast<int>(shape.c), dy, dy_type, dx, bf16, add);
}

}  // namespace octet::cuda
