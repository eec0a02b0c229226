// Convolutions with FP16 sums in chunks, against one plain loop for each sum.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/shared/small_float.h"

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

void compare(Isa isa) {
  const ConvProblem p{.x = {2, 5, 6, 8},
                      .y = {2, 3, 3, 12},
                      .kernel_h = 3,
                      .kernel_w = 3,
                      .stride_h = 2,
                      .stride_w = 2,
                      .pad_h = 1,
                      .pad_w = 1,
                      .groups = 2};
  const int64_t inputs = 4, outputs = 6;
  const auto random = [](int64_t count, uint32_t salt) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = Float8::nearest(float(philox(i, salt, 1, 2).word[0]) / 4294967296.0f * 4 - 2);
    return values;
  };
  std::vector<float> x = random(p.x.elements(), 1), w = random(p.weight().elements(), 2),
                     dy = random(p.y.elements(), 3);
  std::vector<float> y(dy.size()), dx(x.size()), dw(w.size());
  const auto backend = make_cpu_backend({.isa = isa, .threads = 2, .real = RealConvolution::chunked_float16});
  const QTensor qx{{x.data(), p.x}}, qw{{w.data(), p.weight()}}, qdy{{dy.data(), p.y}};
  backend->conv_forward(p, qx, qw, {y.data(), p.y}, {});
  backend->conv_backward_data(p, qdy, qw, {{dx.data(), p.x}});
  backend->conv_backward_weight(p, qx, qdy, {{dw.data(), p.weight()}});

  const auto at = [](const std::vector<float>& v, const Shape& s, int64_t n, int64_t h, int64_t col, int64_t c) {
    return h < 0 || col < 0 || h >= s.h || col >= s.w ? 0.0f : v[size_t(((n * s.h + h) * s.w + col) * s.c + c)];
  };
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t col = 0; col < 3; ++col)
        for (int64_t o = 0; o < 12; ++o)
          EXPECT_EQ(at(y, p.y, n, h, col, o), chunked_sum(9 * inputs, [&](int64_t k) {
                      const int64_t tap = k / inputs, i = k % inputs;
                      return at(x, p.x, n, h * 2 - 1 + tap / 3, col * 2 - 1 + tap % 3, o / outputs * inputs + i) *
                             w[size_t((o * 9 + tap) * inputs + i)];
                    }));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t h = 0; h < 5; ++h)
      for (int64_t col = 0; col < 6; ++col)
        for (int64_t i = 0; i < 8; ++i)
          EXPECT_EQ(at(dx, p.x, n, h, col, i), chunked_sum(9 * outputs, [&](int64_t k) {
                      const int64_t tap = k / outputs, o = i / inputs * outputs + k % outputs;
                      const int64_t row = h + 1 - tap / 3, place = col + 1 - tap % 3;
                      if (row % 2 != 0 || place % 2 != 0) return 0.0f;
                      return at(dy, p.y, n, row / 2, place / 2, o) * w[size_t((o * 9 + tap) * inputs + i % inputs)];
                    }));
  for (int64_t o = 0; o < 12; ++o)
    for (int64_t tap = 0; tap < 9; ++tap)
      for (int64_t i = 0; i < inputs; ++i)
        EXPECT_EQ(dw[size_t((o * 9 + tap) * inputs + i)], chunked_sum(18, [&](int64_t k) {
                    const int64_t n = k / 9, h = k / 3 % 3, col = k % 3;
                    return dy[size_t(k * 12 + o)] *
                           at(x, p.x, n, h * 2 - 1 + tap / 3, col * 2 - 1 + tap % 3, o / outputs * inputs + i);
                  }));
}

TEST(ChunkedConvolution, EqualsPlainLoopsOnEveryInstructionSet) {
  for (Isa isa : available_isas()) compare(isa);
}

}  // namespace
}  // namespace octet
