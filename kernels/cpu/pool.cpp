// Pools, as plain loops over channels that the compiler turns into vectors.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/parallel.h"

namespace octet::cpu {
namespace {
constexpr int64_t tile = 64;  // channels whose sums wait on the stack

// The part of an output pixel's window that lies inside the image.
struct Window {
  int64_t row, column;  // of the whole window
  int64_t top, bottom, left, right;
  Window(const PoolProblem& p, int64_t y_row, int64_t y_column)
      : row(y_row * p.stride - p.pad),
        column(y_column * p.stride - p.pad),
        top(std::max<int64_t>(row, 0)),
        bottom(std::min(row + p.kernel, p.x.h)),
        left(std::max<int64_t>(column, 0)),
        right(std::min(column + p.kernel, p.x.w)) {}
  // The number of a pixel, see PoolForwardCall.
  uint8_t number(const PoolProblem& p, int64_t h, int64_t w) const {
    return static_cast<uint8_t>((h - row) * p.kernel + w - column);
  }
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

// The maxima of a pixel's channels, and which pixels of the window they are.
template <class T>
void choose_pixel(const PoolProblem& p, const T* image, const Window& window, T* out, uint8_t* choices) {
  const int64_t channels = p.x.c;
  memcpy(out, image + (window.top * p.x.w + window.left) * channels, static_cast<size_t>(channels) * sizeof(T));
  std::fill_n(choices, channels, window.number(p, window.top, window.left));
  window.for_each([&](int64_t h, int64_t w) {
    const T* const from = image + (h * p.x.w + w) * channels;
    const uint8_t number = window.number(p, h, w);
    for (int64_t c = 0; c < channels; ++c) {
      const bool more = as_float(from[c]) > as_float(out[c]);
      out[c] = more ? from[c] : out[c];
      choices[c] = more ? number : choices[c];
    }
  });
  for (int64_t c = 0; p.rectify && c < channels; ++c) {
    choices[c] = as_float(out[c]) > 0 ? choices[c] : no_choice;
    out[c] = as_float(out[c]) < 0 ? T{} : out[c];
  }
}

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

// The windows along an axis that reach a position of x.
struct Reach {
  int64_t first, count;
  Reach(const PoolProblem& p, int64_t at, int64_t outputs)
      : first(std::max<int64_t>(0, at + p.pad - p.kernel + p.stride) / p.stride),
        count(std::max<int64_t>(0, std::min(outputs, (at + p.pad) / p.stride + 1) - first)) {}
};
// How many positions of x each window of an axis counts.
std::vector<int32_t> window_extents(const PoolProblem& p, int64_t inputs, int64_t outputs) {
  std::vector<int32_t> extents;
  for (int64_t at = -p.pad; std::ssize(extents) < outputs; at += p.stride) {
    const int64_t inside = std::min(at + p.kernel, inputs) - std::max<int64_t>(at, 0);
    extents.push_back(static_cast<int32_t>(p.count_padding ? p.kernel : inside));
  }
  return extents;
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
// Each pixel of x gathers its gradient.
void unpool(const Passes& passes, const Threads& threads, const PoolBackwardCall& call) {
  const PoolProblem& p = call.problem;
  const int64_t channels = p.x.c, y_row = p.y.w * channels;
  const auto gather = passes.unpool[index_of(call.dy.dtype)][index_of(call.dx.tensor.dtype)];
  const auto heights = window_extents(p, p.x.h, p.y.h), widths = window_extents(p, p.x.w, p.y.w);
  const auto bytes_of = [](const Tensor& tensor, int64_t element) {
    return tensor.as<std::byte>() + element * static_cast<int64_t>(size_of(tensor.dtype));
  };
  parallel_for(threads, p.x.n * p.x.h, [&](int64_t line) {
    const int64_t n = line / p.x.h, h = line % p.x.h;
    const Reach rows(p, h, p.y.h);
    for (int64_t w = 0; w < p.x.w; ++w) {
      const Reach columns(p, w, p.y.w);
      const int64_t first = ((n * p.y.h + rows.first) * p.y.w + columns.first) * channels;
      PoolWindows windows{.rows = rows.count, .columns = columns.count, .row_step = y_row, .column_step = channels};
      windows.dy = bytes_of(call.dy, first);
      if (p.kind == PoolKind::max) {
        const int64_t number = (h - rows.first * p.stride + p.pad) * p.kernel + w - columns.first * p.stride + p.pad;
        windows.choices = call.choices.u8() + first;
        windows.number = static_cast<int>(number), windows.number_row = p.stride * p.kernel;
        windows.number_column = p.stride;
      } else {
        windows.heights = heights.data() + rows.first, windows.widths = widths.data() + columns.first;
      }
      gather(windows, channels, bytes_of(call.dx.tensor, (line * p.x.w + w) * channels), call.dx.add);
    }
  });
}
}  // namespace

void CpuBackend::compute(const PoolForwardCall& call) {
  const PoolProblem& problem = call.problem;
  if (problem.kind == PoolKind::repeat) {
    const size_t pixel = static_cast<size_t>(problem.x.c) * size_of(call.x.values.dtype);
    const size_t row = static_cast<size_t>(problem.x.w) * pixel, area = static_cast<size_t>(problem.kernel) * row;
    parallel_for(threads_, problem.x.n * problem.x.h, [&](int64_t line) {
      const auto number = static_cast<size_t>(line);
      repeat_row(problem, call.x.values.as<std::byte>() + number * row, pixel,
                 call.y.values.as<std::byte>() + number * area * static_cast<size_t>(problem.kernel));
    });
  } else {
    with_type(call.x.values.dtype, [&](auto element) {
      using T = decltype(element);
      parallel_for(threads_, problem.y.n * problem.y.h, [&](int64_t line) {
        const T* const image = call.x.values.as<T>() + line / problem.y.h * problem.x.h * problem.x.w * problem.x.c;
        const int64_t first = line * problem.y.w * problem.y.c;
        T* out = call.y.values.as<T>() + first;
        uint8_t* choices = call.choices ? call.choices.u8() + first : nullptr;
        for (int64_t w = 0; w < problem.y.w; ++w, out += problem.y.c) {
          const Window window(problem, line % problem.y.h, w);
          if (choices == nullptr)
            pool_pixel(problem, image, window, out);
          else
            choose_pixel(problem, image, window, out, choices + w * problem.y.c);
        }
      });
    });
  }
  if (!call.x.real()) *call.y.scale = *call.x.scale;
}

void CpuBackend::compute(const PoolBackwardCall& call) {
  const PoolProblem& problem = call.problem;
  if (problem.kind != PoolKind::repeat) return unpool(passes_, threads_, call);
  const int64_t row = problem.x.w * problem.x.c, y_row = problem.y.w * problem.y.c;
  with_real_type(call.dy.dtype, [&]<class G>(G) {
    with_real_type(call.dx.tensor.dtype, [&]<class D>(D) {
      parallel_for(threads_, problem.x.n * problem.x.h, [&](int64_t line) {
        sum_repeated_row(problem, call.dy.as<G>() + line * problem.kernel * y_row, call.dx.tensor.as<D>() + line * row,
                         call.dx.add);
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
    parallel_for(threads_, from.n, [&](int64_t n) {
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
  with_real_type(call.dy.dtype, [&]<class G>(G) {
    with_real_type(call.dx.tensor.dtype, [&]<class D>(D) {
      parallel_for(threads_, to.n, [&](int64_t n) {
        const G* const from = call.dy.as<G>() + n * channels;
        D* const image = call.dx.tensor.as<D>() + n * pixels * channels;
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          for (int64_t c = 0; c < channels; ++c)
            write(image + pixel * channels, c, as_float(from[c]) / static_cast<float>(pixels), call.dx.add);
      });
    });
  });
}

}  // namespace octet::cpu
