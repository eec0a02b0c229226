// Pools, as plain loops over channels that the compiler turns into vectors.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/checks.h"

namespace octet::cpu {
namespace {
constexpr int64_t tile = 64;  // channels whose sums wait on the stack

// The part of an output pixel's window that lies inside the image.
struct Window {
  int64_t top, bottom, left, right;
  Window(const PoolProblem& p, int64_t row, int64_t column)
      : top(std::max<int64_t>(row * p.stride - p.pad, 0)),
        bottom(std::min(row * p.stride - p.pad + p.kernel, p.x.h)),
        left(std::max<int64_t>(column * p.stride - p.pad, 0)),
        right(std::min(column * p.stride - p.pad + p.kernel, p.x.w)) {}
  // Elements that an average counts.
  int64_t size(const PoolProblem& p) const {
    return p.count_padding ? int64_t{p.kernel} * p.kernel : (bottom - top) * (right - left);
  }
  // visit(row, column) in row order
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (int64_t h = top; h < bottom; ++h)
      for (int64_t w = left; w < right; ++w) visit(h, w);
  }
};

template <class T>
void pool_pixel(const PoolProblem& p, const T* image, const Window& window, T* out) {
  const int64_t channels = p.x.c;
  if (p.kind == PoolKind::max) {
    memcpy(out, image + (window.top * p.x.w + window.left) * channels, static_cast<size_t>(channels) * sizeof(T));
    window.for_each([&](int64_t h, int64_t w) {
      const T* const from = image + (h * p.x.w + w) * channels;
      for (int64_t c = 0; c < channels; ++c) out[c] = as_float(from[c]) > as_float(out[c]) ? from[c] : out[c];
    });
    for (int64_t c = 0; p.rectify && c < channels; ++c) out[c] = as_float(out[c]) < 0 ? T{} : out[c];
    return;
  }
  for (int64_t first = 0; first < channels; first += tile) {
    const int64_t count = std::min(tile, channels - first);
    double sums[tile] = {};
    window.for_each([&](int64_t h, int64_t w) {
      const T* const from = image + (h * p.x.w + w) * channels + first;
      for (int64_t c = 0; c < count; ++c) sums[c] += as_float(from[c]);
    });
    for (int64_t c = 0; c < count; ++c)
      out[first + c] = as_stored<T>(static_cast<float>(sums[c] / static_cast<double>(window.size(p))));
  }
}

// Adds an output pixel's gradient, for `count` channels, to the input pixels of its window. dx holds these sums as
// doubles. image and dx point to the first of these channels. dx is a ring of `kernel` rows: row h is stored at
// h % kernel.
template <class X, class G>
void unpool_pixel(const PoolProblem& p, const X* image, const Window& window, const G* dy, int64_t count, double* dx) {
  const auto place = [&](int64_t h, int64_t w) { return (h * p.x.w + w) * p.x.c; };
  double gradient[tile];
  for (int64_t c = 0; c < count; ++c) gradient[c] = as_float(dy[c]);
  if (p.kind == PoolKind::average) {
    const double size = static_cast<double>(window.size(p));
    window.for_each([&](int64_t h, int64_t w) {
      double* const to = dx + place(h % p.kernel, w);
      for (int64_t c = 0; c < count; ++c) to[c] += gradient[c] / size;
    });
    return;
  }
  // If x holds codes, they are compared as integers of 16 bits, so that a vector operation compares more of them.
  constexpr bool codes = sizeof(X) == 1;
  using Value = std::conditional_t<codes, X, float>;
  using Number = std::conditional_t<codes, int16_t, int32_t>;
  Value best[tile];
  Number chosen[tile] = {};  // which pixel of the window holds the largest
  for (int64_t c = 0; c < count; ++c) best[c] = static_cast<Value>(as_float(image[place(window.top, window.left) + c]));
  Number number = 0;
  window.for_each([&](int64_t h, int64_t w) {
    const X* const from = image + place(h, w);
    for (int64_t c = 0; c < count; ++c) {
      const Value value = codes ? static_cast<Value>(from[c]) : static_cast<Value>(as_float(from[c]));
      const bool more = value > best[c];
      best[c] = more ? value : best[c];
      chosen[c] = more ? number : chosen[c];
    }
    ++number;
  });
  for (int64_t c = 0; p.rectify && c < count; ++c) gradient[c] = best[c] > 0 ? gradient[c] : 0;
  number = 0;
  window.for_each([&](int64_t h, int64_t w) {
    double* const to = dx + place(h % p.kernel, w);
    for (int64_t c = 0; c < count; ++c) to[c] += chosen[c] == number ? gradient[c] : 0.0;
    ++number;
  });
}

// One row of x, repeated to the right, becomes `kernel` rows of y.
void repeat_row(const PoolProblem& p, const std::byte* from, size_t pixel, std::byte* to) {
  std::byte* out = to;
  for (int64_t w = 0; w < p.x.w; ++w, from += pixel)
    for (int i = 0; i < p.kernel; ++i, out += pixel) memcpy(out, from, pixel);
  const size_t row = static_cast<size_t>(out - to);
  for (int i = 1; i < p.kernel; ++i, out += row) memcpy(out, to, row);
}
// The gradient of one row of x: the sum over the pixels that repeat each pixel, in row order.
template <class G, class D>
void sum_repeated_row(const PoolProblem& p, const G* dy, D* dx, bool add) {
  const int64_t channels = p.x.c;
  for (int64_t w = 0; w < p.x.w; ++w, dx += channels) {
    for (int64_t first = 0; first < channels; first += tile) {
      const int64_t count = std::min(tile, channels - first);
      double sums[tile] = {};
      for (int h = 0; h < p.kernel; ++h)
        for (int i = 0; i < p.kernel; ++i) {
          const G* const from = dy + (h * p.y.w + w * p.kernel + i) * channels + first;
          for (int64_t c = 0; c < count; ++c) sums[c] += as_float(from[c]);
        }
      for (int64_t c = 0; c < count; ++c) write(dx, first + c, static_cast<float>(sums[c]), add);
    }
  }
}
template <class X, class G, class D>
void unpool_image(const PoolProblem& problem, const X* image, const G* from, D* to, bool add) {
  const int64_t channels = problem.x.c, row = problem.x.w * channels;
  std::vector<double> sums(static_cast<size_t>(problem.kernel * row));  // of the rows that a window reaches
  int64_t written = 0;                                                  // rows
  for (int64_t h = 0; h < problem.y.h; ++h) {
    for (int64_t w = 0; w < problem.y.w; ++w, from += channels)
      for (int64_t c = 0; c < channels; c += tile)
        unpool_pixel(problem, image + c, Window(problem, h, w), from + c, std::min(tile, channels - c),
                     sums.data() + c);
    const int64_t complete = h + 1 < problem.y.h ? Window(problem, h + 1, 0).top : problem.x.h;
    for (; written < complete; ++written, to += row) {
      double* const sum = sums.data() + written % problem.kernel * row;
      for (int64_t i = 0; i < row; ++i) write(to, i, static_cast<float>(sum[i]), add);
      std::fill_n(sum, row, 0.0);
    }
  }
}
}  // namespace

void CpuBackend::compute(const PoolForwardCall& call) {
  const PoolProblem& problem = call.problem;
  if (problem.kind == PoolKind::repeat) {
    const size_t pixel = static_cast<size_t>(problem.x.c) * size_of(call.x.values.dtype);
    const size_t row = static_cast<size_t>(problem.x.w) * pixel, area = static_cast<size_t>(problem.kernel) * row;
    parallel_for(options_.threads, problem.x.n * problem.x.h, [&](int64_t line) {
      const auto number = static_cast<size_t>(line);
      repeat_row(problem, call.x.values.as<std::byte>() + number * row, pixel,
                 call.y.values.as<std::byte>() + number * area * static_cast<size_t>(problem.kernel));
    });
  } else {
    with_type(call.x.values.dtype, [&](auto element) {
      using T = decltype(element);
      parallel_for(options_.threads, problem.y.n * problem.y.h, [&](int64_t line) {
        const T* const image = call.x.values.as<T>() + line / problem.y.h * problem.x.h * problem.x.w * problem.x.c;
        T* const out = call.y.values.as<T>() + line * problem.y.w * problem.y.c;
        for (int64_t w = 0; w < problem.y.w; ++w)
          pool_pixel(problem, image, Window(problem, line % problem.y.h, w), out + w * problem.y.c);
      });
    });
  }
  if (!call.x.real()) *call.y.scale = *call.x.scale;
}

void CpuBackend::compute(const PoolBackwardCall& call) {
  const PoolProblem& problem = call.problem;
  const int64_t row = problem.x.w * problem.x.c, y_row = problem.y.w * problem.y.c;
  with_real_type(call.dy.dtype, [&]<class G>(G) {
    with_real_type(call.dx.tensor.dtype, [&]<class D>(D) {
      if (problem.kind == PoolKind::repeat) {
        parallel_for(options_.threads, problem.x.n * problem.x.h, [&](int64_t line) {
          sum_repeated_row(problem, call.dy.as<G>() + line * problem.kernel * y_row,
                           call.dx.tensor.as<D>() + line * row, call.dx.add);
        });
        return;
      }
      with_type(call.x.values.dtype, [&]<class X>(X) {
        parallel_for(options_.threads, problem.x.n, [&](int64_t n) {
          unpool_image(problem, call.x.values.as<X>() + n * problem.x.h * row,
                       call.dy.as<G>() + n * problem.y.h * y_row, call.dx.tensor.as<D>() + n * problem.x.h * row,
                       call.dx.add);
        });
      });
    });
  });
}

void CpuBackend::compute(const GlobalPoolForwardCall& call) {
  const Shape from = call.x.values.shape;
  const int64_t pixels = from.h * from.w, channels = from.c;
  const float scale = call.x.real() ? 0.0f : *call.x.scale / static_cast<float>(pixels);
  with_type(call.x.values.dtype, [&](auto element) {
    using T = decltype(element);
    parallel_for(options_.threads, from.n, [&](int64_t n) {
      const T* const image = call.x.values.as<T>() + n * pixels * channels;
      for (int64_t first = 0; first < channels; first += tile) {
        const int64_t count = std::min(tile, channels - first);
        double sums[tile] = {};  // of codes: exact
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          for (int64_t c = 0; c < count; ++c) sums[c] += as_float(image[pixel * channels + first + c]);
        for (int64_t c = 0; c < count; ++c)
          call.y.f32()[n * channels + first + c] = call.x.real()
                                                       ? static_cast<float>(sums[c] / static_cast<double>(pixels))
                                                       : static_cast<float>(sums[c]) * scale;
      }
    });
  });
}

void CpuBackend::compute(const GlobalPoolBackwardCall& call) {
  const Shape to = call.dx.tensor.shape;
  const int64_t pixels = to.h * to.w, channels = to.c;
  const auto spread = [&](auto error, auto element) {
    using From = decltype(error);
    using T = decltype(element);
    parallel_for(options_.threads, to.n, [&](int64_t n) {
      const From* const from = call.dy.as<From>() + n * channels;
      T* const image = call.dx.tensor.as<T>() + n * pixels * channels;
      for (int64_t pixel = 0; pixel < pixels; ++pixel)
        for (int64_t c = 0; c < channels; ++c)
          write(image + pixel * channels, c, as_float(from[c]) / static_cast<float>(pixels), call.dx.add);
    });
  };
  with_real_type(call.dy.dtype, [&](auto error) {
    with_real_type(call.dx.tensor.dtype, [&](auto element) { spread(error, element); });
  });
}

}  // namespace octet::cpu
