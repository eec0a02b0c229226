// Convolutions with FP16 sums in chunks, against one plain loop for each sum.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/backend.h"
#include "kernels/shared/small_float.h"
#include "tests/kernels/cases.h"

namespace octet {
namespace {

// Sums count products in order; product(k) is nullopt-like (0) for padding.
float chunked_sum(int64_t count, const std::function<float(int64_t)>& product) {
  float total = 0;
  for (int64_t first = 0; first < count; first += 64) {
    float chunk = 0;
    for (int64_t k = first; k < std::min(first + 64, count); ++k) chunk = Float16::nearest(chunk + product(k));
    total = Float16::nearest(total + chunk);
  }
  return total;
}

// Operands are FP8 numbers up to `largest`, or f32 numbers.
void compare(Isa isa, const ConvProblem& p, float largest, bool fp8 = true) {
  const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, taps = int64_t{p.kernel_h} * p.kernel_w;
  const auto random = [=](int64_t count, uint32_t salt) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = (float(philox(i, salt, 1, 2).word[0]) / 4294967296.0f * 2 - 1) * largest;
      values[i] = fp8 ? Float8::nearest(value) : value;
    }
    return values;
  };
  std::vector<float> x = random(p.x.elements(), 1), w = random(p.weight().elements(), 2),
                     dy = random(p.y.elements(), 3);
  std::vector<float> y(dy.size()), dx(x.size()), dw(w.size());
  const auto backend = make_cpu_backend({.isa = isa, .threads = 2, .real = RealConvolution::chunked_float16});
  const QTensor qx{{x.data(), p.x}}, qw{{w.data(), p.weight()}}, qdy{{dy.data(), p.y}};
  backend->conv_forward({p, qx, qw, {y.data(), p.y}});
  backend->conv_backward_data({p, qdy, qw, {{dx.data(), p.x}}});
  backend->conv_backward_weight({p, qx, qdy, {{dw.data(), p.weight()}}});

  const auto at = [](const std::vector<float>& v, const Shape& s, int64_t n, int64_t h, int64_t col, int64_t c) {
    return h < 0 || col < 0 || h >= s.h || col >= s.w ? 0.0f : v[size_t(((n * s.h + h) * s.w + col) * s.c + c)];
  };
  const auto row_of = [&](int64_t line, int64_t tap) { return line * p.stride_h - p.pad_h + tap / p.kernel_w; };
  const auto column_of = [&](int64_t place, int64_t tap) { return place * p.stride_w - p.pad_w + tap % p.kernel_w; };
  for (int64_t pixel = 0; pixel < p.y.pixels(); ++pixel)
    for (int64_t o = 0; o < p.y.c; ++o)
      ASSERT_EQ(y[size_t(pixel * p.y.c + o)], chunked_sum(taps * inputs, [&](int64_t k) {
                  const int64_t tap = k / inputs, i = k % inputs, line = pixel / p.y.w % p.y.h, place = pixel % p.y.w;
                  return at(x, p.x, pixel / p.y.w / p.y.h, row_of(line, tap), column_of(place, tap),
                            o / outputs * inputs + i) *
                         w[size_t((o * taps + tap) * inputs + i)];
                }));
  for (int64_t pixel = 0; pixel < p.x.pixels(); ++pixel)
    for (int64_t i = 0; i < p.x.c; ++i)
      ASSERT_EQ(dx[size_t(pixel * p.x.c + i)], chunked_sum(taps * outputs, [&](int64_t k) {
                  const int64_t tap = k / outputs, o = i / inputs * outputs + k % outputs;
                  const int64_t row = pixel / p.x.w % p.x.h + p.pad_h - tap / p.kernel_w;
                  const int64_t column = pixel % p.x.w + p.pad_w - tap % p.kernel_w;
                  if (row % p.stride_h != 0 || column % p.stride_w != 0) return 0.0f;
                  return at(dy, p.y, pixel / p.x.w / p.x.h, row / p.stride_h, column / p.stride_w, o) *
                         w[size_t((o * taps + tap) * inputs + i % inputs)];
                }));
  for (int64_t o = 0; o < p.y.c; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t i = 0; i < inputs; ++i)
        ASSERT_EQ(dw[size_t((o * taps + tap) * inputs + i)], chunked_sum(p.y.pixels(), [&](int64_t k) {
                    return dy[size_t(k * p.y.c + o)] * at(x, p.x, k / p.y.w / p.y.h, row_of(k / p.y.w % p.y.h, tap),
                                                          column_of(k % p.y.w, tap), o / outputs * inputs + i);
                  }));
}

ConvProblem problem(int height, int width, int channels, int outputs, int kernel, int stride, int groups) {
  const int pad = kernel / 2;
  return {.x = {2, height, width, channels},
          .y = {2, (height + 2 * pad - kernel) / stride + 1, (width + 2 * pad - kernel) / stride + 1, outputs},
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad,
          .groups = groups};
}

TEST(ChunkedConvolution, EqualsPlainLoopsOnEveryInstructionSet) {
  for (Isa isa : available_isas())
    for (const ConvProblem& p :
         {problem(5, 6, 8, 12, 3, 2, 2), problem(7, 5, 33, 70, 3, 1, 1), problem(6, 6, 70, 33, 1, 1, 1),
          problem(5, 7, 70, 70, 3, 1, 70), problem(9, 6, 20, 20, 3, 2, 20), problem(8, 8, 64, 66, 3, 2, 1),
          problem(27, 29, 5, 19, 3, 1, 1), test::same_case({2, 8, 6, 20}, 20, 5, 2, 20).problem})
      compare(isa, p, 2);
}

// Sums so small that FP16 has fewer bits for them, and so large that it ends.
TEST(ChunkedConvolution, EqualsPlainLoopsAtTheEndsOfTheRange) {
  for (Isa isa : available_isas())
    for (float largest : {3e-4f, 5e4f}) compare(isa, problem(6, 6, 24, 24, 3, 1, 1), largest);
}

// The first and the last layer, whose products f32 rounds.
TEST(ChunkedConvolution, EqualsPlainLoopsOfF32Numbers) {
  for (Isa isa : available_isas())
    for (const ConvProblem& p : {problem(7, 5, 33, 70, 3, 1, 1), problem(5, 7, 70, 70, 3, 1, 70)})
      compare(isa, p, 2, false);
}

// What has become NaN must be seen at the end of the step, not saturated.
TEST(ChunkedConvolution, NotANumberStays) {
  for (Isa isa : available_isas())
    for (const ConvProblem& p : {problem(4, 4, 20, 70, 3, 1, 1), problem(4, 4, 70, 70, 3, 1, 70)}) {
      const auto backend = make_cpu_backend({.isa = isa, .threads = 2, .real = RealConvolution::chunked_float16});
      std::vector<float> x(size_t(p.x.elements()), 1.0f), w(size_t(p.weight().elements()), 1.0f),
          y(size_t(p.y.elements()));
      x[0] = std::numeric_limits<float>::quiet_NaN();
      backend->conv_forward({p, {{x.data(), p.x}}, {{w.data(), p.weight()}}, {y.data(), p.y}});
      EXPECT_TRUE(std::isnan(y[0])) << y[0];
      EXPECT_FALSE(std::isnan(y.back()));
    }
}

}  // namespace
}  // namespace octet
