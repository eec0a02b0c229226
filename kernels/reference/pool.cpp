// Pools.
#include <algorithm>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"

namespace octet {
namespace {
using namespace reference;

// visit(x index) in row order for the window's elements inside the image, of output element y.
template <class Visit>
void for_window(const PoolProblem& p, int64_t y, Visit visit) {
  const int64_t channel = y % p.y.c, column = y / p.y.c % p.y.w, row = y / (p.y.c * p.y.w) % p.y.h;
  const int64_t n = y / (p.y.c * p.y.w * p.y.h);
  const int64_t top = row * p.stride - p.pad, left = column * p.stride - p.pad;
  for (int64_t h = std::max<int64_t>(top, 0); h < std::min(top + p.kernel, p.x.h); ++h) {
    for (int64_t w = std::max<int64_t>(left, 0); w < std::min(left + p.kernel, p.x.w); ++w) {
      visit(((n * p.x.h + h) * p.x.w + w) * p.x.c + channel);
    }
  }
}
// The first of the largest elements, in row order.
int64_t largest_in_window(const PoolProblem& problem, Tensor x, int64_t y) {
  int64_t best = -1;
  for_window(problem, y, [&](int64_t i) {
    if (best < 0 || read(x, i) > read(x, best)) best = i;
  });
  return best;
}
// The number of that element in the window of output element y.
uint8_t choice_of(const PoolProblem& p, int64_t y, int64_t element) {
  const int64_t column = y / p.y.c % p.y.w, row = y / (p.y.c * p.y.w) % p.y.h;
  const int64_t w = element / p.x.c % p.x.w - (column * p.stride - p.pad);
  const int64_t h = element / (p.x.c * p.x.w) % p.x.h - (row * p.stride - p.pad);
  return static_cast<uint8_t>(h * p.kernel + w);
}
// The element of x that output element y took.
int64_t chosen_element(const PoolProblem& p, int64_t y, uint8_t choice) {
  int64_t chosen = -1;
  for_window(p, y, [&](int64_t i) {
    if (choice_of(p, y, i) == choice) chosen = i;
  });
  return chosen;
}
// The element of x that output element y repeats.
int64_t repeated_pixel(const PoolProblem& p, int64_t y) {
  const int64_t channel = y % p.y.c, column = y / p.y.c % p.y.w / p.kernel, row = y / (p.y.c * p.y.w);  // of all images
  return (row / p.kernel * p.x.w + column) * p.x.c + channel;  // an image has a multiple of `kernel` rows
}
int64_t window_size(const PoolProblem& problem, int64_t y) {
  if (problem.count_padding) return int64_t{problem.kernel} * problem.kernel;
  int64_t count = 0;
  for_window(problem, y, [&](int64_t) { ++count; });
  return count;
}
}  // namespace

void ReferenceBackend::compute(const PoolForwardCall& call) {
  const PoolProblem& problem = call.problem;
  for (int64_t i = 0; i < call.y.values.elements(); ++i) {
    if (problem.kind == PoolKind::repeat) {
      write_code_or_real(call.y.values, i, read(call.x.values, repeated_pixel(problem, i)));
    } else if (problem.kind == PoolKind::max) {
      const int64_t from = largest_in_window(problem, call.x.values, i);
      const float largest = read(call.x.values, from);
      if (call.choices)
        call.choices.u8()[i] = problem.rectify && !(largest > 0) ? no_choice : choice_of(problem, i, from);
      write_code_or_real(call.y.values, i, problem.rectify && largest < 0 ? 0 : largest);
    } else {
      double sum = 0;
      for_window(problem, i, [&](int64_t from) { sum += read(call.x.values, from); });
      write_code_or_real(call.y.values, i, static_cast<float>(sum / window_size(problem, i)));
    }
  }
  if (!call.x.real()) *call.y.scale = *call.x.scale;
}

void ReferenceBackend::compute(const PoolBackwardCall& call) {
  const PoolProblem& problem = call.problem;
  std::vector<double> sums(problem.x.elements());
  for (int64_t i = 0; i < call.dy.elements(); ++i) {
    if (problem.kind == PoolKind::repeat) {
      sums[repeated_pixel(problem, i)] += read(call.dy, i);
    } else if (problem.kind == PoolKind::max) {
      const uint8_t choice = call.choices.u8()[i];
      if (choice != no_choice) sums[chosen_element(problem, i, choice)] += read(call.dy, i);
    } else {
      const double share = static_cast<double>(read(call.dy, i)) / window_size(problem, i);
      for_window(problem, i, [&](int64_t to) { sums[to] += share; });
    }
  }
  for (int64_t i = 0; i < call.dx.tensor.elements(); ++i) write(call.dx, i, static_cast<float>(sums[i]));
}

void ReferenceBackend::compute(const GlobalPoolForwardCall& call) {
  const auto& [x, y] = call;
  const Shape from = x.values.shape;
  const int64_t pixels = from.h * from.w;
  for (int64_t n = 0; n < from.n; ++n) {
    for (int64_t channel = 0; channel < from.c; ++channel) {
      double sum = 0;  // of codes: exact
      for (int64_t pixel = 0; pixel < pixels; ++pixel) sum += read(x.values, (n * pixels + pixel) * from.c + channel);
      write(y, n * from.c + channel,
            x.real() ? static_cast<float>(sum / pixels)
                     : static_cast<float>(sum) * (*x.scale / static_cast<float>(pixels)));
    }
  }
}

void ReferenceBackend::compute(const GlobalPoolBackwardCall& call) {
  const auto& [dy, dx] = call;
  const Shape to = dx.tensor.shape;
  const int64_t pixels = to.h * to.w;
  for (int64_t i = 0; i < to.elements(); ++i) {
    write(dx, i, read(dy, i / (pixels * to.c) * to.c + i % to.c) / static_cast<float>(pixels));
  }
}

}  // namespace octet
