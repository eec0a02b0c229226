// The first layer on images of bytes. Every tier and number of threads gives the reference's bits, since all sums are
// exact; and the reference errs no more than sums in f32 do.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/conv_table.h"
#include "kernels/cpu/convolution.h"
#include "kernels/shared/pixel_weights.h"
#include "tests/emulated/kernels.h"
#include "tests/kernels/pixel_cases.h"

namespace octet {
namespace {
using namespace test;

struct Results {
  OwnedTensor y, dw;
  std::vector<OwnedMoments> moments;
};
// groups: of the problem's images, which follow each other in the operands.
template <class Computes>
Results results_of(Computes& by, const ConvProblem& p, const PixelOperands& o, DType type, bool add) {
  Results r{OwnedTensor({o.x.view().shape.n, p.y.h, p.y.w, p.y.c}, type), OwnedTensor(p.weight()), {}};
  std::vector<Moments> moments;
  for (int64_t group = 0; group < o.x.view().shape.n / p.x.n; ++group)
    moments.emplace_back(r.moments.emplace_back(p.y.c));
  by.pixel_forward({p, photograph_pixels, o.x, o.w, r.y, moments});
  ConvProblem all = p;
  all.x.n = all.y.n = o.x.view().shape.n;
  by.pixel_backward_weight({all, photograph_pixels, o.x, o.dy, {r.dw}});
  if (add) by.pixel_backward_weight({all, photograph_pixels, o.x, o.dy, {r.dw, true}});
  return r;
}
// A convolution of its own, as a backend.
struct Alone {
  cpu::Convolution& convolution;
  void pixel_forward(const PixelForwardCall& call) { convolution.forward(call); }
  void pixel_backward_weight(const PixelBackwardWeightCall& call) { convolution.backward_weight(call); }
};

// NaN equals NaN.
void expect_same(const OwnedTensor& got, const OwnedTensor& want, const char* what) {
  for (int64_t i = 0; i < want.elements(); ++i)
    ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
        << what << " at " << i << ": " << got[i] << " for " << want[i];
}
void expect_same(const Results& got, const Results& want) {
  expect_same(got.y, want.y, "y");
  expect_same(got.dw, want.dw, "dw");
  for (size_t group = 0; group < want.moments.size(); ++group) {
    expect_same(got.moments[group].mean, want.moments[group].mean, "mean");
    expect_same(got.moments[group].variance, want.moments[group].variance, "variance");
    expect_same(got.moments[group].min, want.moments[group].min, "min");
    expect_same(got.moments[group].max, want.moments[group].max, "max");
  }
}

template <class Computes>
void expect_the_references_bits(Computes& by) {
  const auto reference = make_reference_backend();
  bool add = false;
  for (const ConvProblem& p : first_layers()) {
    const NamedCase scope(name_of(p));
    const PixelOperands operands(p);
    const DType type = add ? DType::bf16 : DType::f32;
    expect_same(results_of(by, p, operands, type, add), results_of(*reference, p, operands, type, add));
    if (testing::Test::HasFatalFailure()) return;
    add = !add;
  }
}

class PixelConvolution : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Tiers, PixelConvolution, testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(octet::name_of(isa.param)); });

TEST_P(PixelConvolution, HasTheReferencesBits) {
  for (const int threads : {1, 2, 3, 24}) {
    const NamedCase scope(say(threads, " threads"));
    const auto convolution = cpu::make_int8_convolution(GetParam(), threads);
    Alone alone{*convolution};
    expect_the_references_bits(alone);
  }
}

#if defined(__x86_64__)
TEST(EmulatedAvxVnni, PixelConvolutionHasTheReferencesBits) {
  if (best_isa() < Isa::avx512_vnni) GTEST_SKIP() << "multiplies with AVX-512 VNNI";
  cpu::TableConvolution convolution(cpu::avx_vnni_emulated::code_kernels, nullptr, 2,
                                    &cpu::avx_vnni_emulated::digit_kernels);
  Alone alone{convolution};
  expect_the_references_bits(alone);
}
TEST(EmulatedNeon, PixelConvolutionHasTheReferencesBits) {
  cpu::TableConvolution convolution(cpu::neon_dot::code_kernels, nullptr, 2, &cpu::neon_dot::digit_kernels);
  Alone alone{convolution};
  expect_the_references_bits(alone);
}
#endif

TEST_P(PixelConvolution, GroupsHaveMomentsOfTheirOwn) {
  const auto backend = make_cpu_backend({GetParam(), 2}), reference = make_reference_backend();
  ConvProblem p = first_layer(6, 14, 14, 20, 3, 1, 1);
  const PixelOperands operands(p);
  p.x.n = p.y.n = 2;
  expect_same(results_of(*backend, p, operands, DType::bf16, false),
              results_of(*reference, p, operands, DType::bf16, false));
}

// The largest sums: all pixels white, all weights of a channel as large as any, and gradients of one sign, with more
// pixels of an image than an int32 sum of digits holds.
TEST_P(PixelConvolution, LargestSumsAreExact) {
  const auto backend = make_cpu_backend({GetParam(), 2}), reference = make_reference_backend();
  for (const ConvProblem& p : {first_layer(1, 300, 300, 3, 3, 1, 1), first_layer(2, 23, 23, 18, 11, 1, 0)}) {
    const NamedCase scope(name_of(p));
    const PixelOperands operands(p);
    std::fill_n(operands.x.view().u8(), operands.x.elements(), uint8_t{255});
    for (int64_t i = 0; i < operands.w.elements(); ++i) {
      const float of_channel[] = {1, -1, 0.001f};
      const float scale = photograph_pixels.scale[i % 3];
      operands.w.f32()[i] = of_channel[i * p.y.c / operands.w.elements() % 3] / scale;
    }
    for (int64_t i = 0; i < operands.dy.elements(); ++i) operands.dy.f32()[i] = i % p.y.c % 2 == 0 ? 1.0f : -1.0f;
    expect_same(results_of(*backend, p, operands, DType::f32, false),
                results_of(*reference, p, operands, DType::f32, false));
  }
}

// Nothing is hidden where a weight or a gradient is not finite, and no other channel is touched.
TEST_P(PixelConvolution, WhatIsNotFiniteStaysSo) {
  const auto backend = make_cpu_backend({GetParam(), 2}), reference = make_reference_backend();
  const ConvProblem p = first_layer(2, 9, 9, 20, 3, 1, 1);
  const PixelOperands operands(p);
  const int64_t weights = operands.w.elements() / p.y.c;
  operands.w.f32()[3 * weights + 5] = std::numeric_limits<float>::quiet_NaN();
  operands.w.f32()[4 * weights] = std::numeric_limits<float>::infinity();
  std::fill_n(operands.w.f32() + 5 * weights, weights, 0.0f);
  operands.w.f32()[6 * weights] = 1e-42f;  // subnormal
  operands.dy.f32()[7] = -std::numeric_limits<float>::infinity();
  operands.dy.f32()[p.y.c + 8] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < p.y.pixels(); ++i) operands.dy.f32()[i * p.y.c + 9] = 0;
  for (int64_t i = 0; i < p.y.pixels(); ++i) operands.dy.f32()[i * p.y.c + 10] *= 1e-37f;
  const Results got = results_of(*backend, p, operands, DType::f32, false);
  expect_same(got, results_of(*reference, p, operands, DType::f32, false));
  for (int64_t i = 0; i < got.y.elements(); ++i) {
    const int64_t channel = i % p.y.c;
    ASSERT_EQ(std::isnan(got.y[i]), channel == 3 || channel == 4) << i;
    if (channel == 5) {
      ASSERT_EQ(got.y[i], 0) << i;
    }
  }
  for (int64_t i = 0; i < got.dw.elements(); ++i) {
    const int64_t channel = i / weights;
    ASSERT_EQ(std::isnan(got.dw[i]), channel == 7 || channel == 8) << i;
    if (channel == 9) {
      ASSERT_EQ(got.dw[i], 0) << i;
    }
  }
}

// Sums of normalized pixels in double, and those of magnitudes.
struct Exact {
  std::vector<double> sum, magnitude;
};
double real_pixel(const Tensor& x, int64_t pixel, int c) {
  const uint8_t* const bytes = x.u8() + pixel * pixel_channels;
  return double(bytes[c]) * double(photograph_pixels.scale[c]) + bytes[3] / 255.0 * double(photograph_pixels.shift[c]);
}
template <class Visit>  // visit(output element, weight element, normalized pixel)
void visit_products(const ConvProblem& p, const Tensor& x, const Visit& visit) {
  for (int64_t i = 0; i < p.y.elements(); ++i) {
    const int64_t o = i % p.y.c, column = i / p.y.c % p.y.w, row = i / p.y.c / p.y.w % p.y.h,
                  n = i / p.y.c / p.y.w / p.y.h;
    for (int tap = 0; tap < p.kernel_h * p.kernel_w; ++tap) {
      const int64_t r = row * p.stride_h - p.pad_h + tap / p.kernel_w,
                    s = column * p.stride_w - p.pad_w + tap % p.kernel_w;
      if (r < 0 || r >= p.x.h || s < 0 || s >= p.x.w) continue;
      for (int c = 0; c < 3; ++c)
        visit(i, (o * p.kernel_h * p.kernel_w + tap) * 3 + c, real_pixel(x, (n * p.x.h + r) * p.x.w + s, c));
    }
  }
}

// The weight of a color is wrong by at most half of factor / 256 for a byte of at most 255, and the weight of `inside`
// by three such halves and two carries; the last rounding by half of factor, and the value by its last bit. That is
// less than the bound of a sum of as many products in f32, n 2^-24 times the sum of magnitudes, wherever pixels and
// weights are not almost all zero.
TEST(PixelArithmetic, ValuesErrLessThanSumsInF32May) {
  const auto reference = make_reference_backend();
  for (const ConvProblem& p : {first_layer(2, 16, 16, 8, 3, 1, 1), first_layer(1, 30, 30, 8, 7, 2, 3)}) {
    const NamedCase scope(name_of(p));
    const PixelOperands operands(p);
    const int64_t taps = p.kernel_h * p.kernel_w, n = taps * pixel_channels;
    const Results got = results_of(*reference, p, operands, DType::f32, false);
    Exact y{std::vector<double>(size_t(p.y.elements())), std::vector<double>(size_t(p.y.elements()))};
    visit_products(p, operands.x, [&](int64_t i, int64_t j, double x) {
      y.sum[size_t(i)] += x * double(operands.w[j]), y.magnitude[size_t(i)] += std::abs(x * double(operands.w[j]));
    });
    double worst = 0, f32 = 0;
    for (int64_t i = 0; i < p.y.elements(); ++i) {
      std::vector<int32_t> codes(static_cast<size_t>(n));
      const double factor =
          double(round_pixel_weights(operands.w.f32() + i % p.y.c * taps * 3, taps, photograph_pixels, codes.data()));
      const double bound =
          factor * ((1.5 + 2.5) * 255 * double(taps) / 256 + 0.5) + std::ldexp(std::abs(y.sum[size_t(i)]), -23);
      ASSERT_NEAR(got.y[i], y.sum[size_t(i)], bound) << i;
      worst = std::max(worst, bound), f32 = std::max(f32, double(n) * std::ldexp(y.magnitude[size_t(i)], -24));
    }
    EXPECT_LT(worst, f32);
  }
}
TEST(PixelArithmetic, WeightGradientsErrLessThanSumsInF32May) {
  const auto reference = make_reference_backend();
  for (const ConvProblem& p : {first_layer(2, 16, 16, 8, 3, 1, 1), first_layer(1, 30, 30, 8, 7, 2, 3)}) {
    const NamedCase scope(name_of(p));
    const PixelOperands operands(p);
    const auto weights = size_t(operands.w.elements());
    const Results got = results_of(*reference, p, operands, DType::f32, false);
    Exact dw{std::vector<double>(weights), std::vector<double>(weights)};
    std::vector<double> pixels(weights);  // sums of |x|
    visit_products(p, operands.x, [&](int64_t i, int64_t j, double x) {
      dw.sum[size_t(j)] += x * double(operands.dy[i]);
      dw.magnitude[size_t(j)] += std::abs(x * double(operands.dy[i]));
      pixels[size_t(j)] += std::abs(x);
    });
    double worst = 0, f32 = 0;
    for (size_t j = 0; j < weights; ++j) {
      double largest = 0;
      for (int64_t i = int64_t(j / (weights / size_t(p.y.c))); i < p.y.elements(); i += p.y.c)
        largest = std::max(largest, std::abs(double(operands.dy[i])));
      // A gradient is wrong by half a step and by the last bit of its product with the scale, which is half a step
      // more.
      const double bound = largest / pixel_limit * 1.001 * pixels[j] + std::ldexp(std::abs(dw.sum[j]), -23);
      ASSERT_NEAR(got.dw[int64_t(j)], dw.sum[j], bound) << j;
      worst = std::max(worst, bound), f32 = std::max(f32, double(p.y.pixels()) * std::ldexp(dw.magnitude[j], -24));
    }
    EXPECT_LT(worst, f32);
  }
}

// The factor of a channel keeps all integers within their limit, and its largest weight near it.
TEST(PixelArithmetic, WeightsFillTheirRange) {
  for (int64_t taps : {1, 9, 49, 128})
    for (uint32_t seed = 0; seed < 50; ++seed) {
      const OwnedTensor w = random_real({1, 1, taps, 3}, seed, std::ldexp(1.0f, int(seed) * 4 - 100));
      std::vector<int32_t> codes(static_cast<size_t>(taps * pixel_channels));
      const float factor = round_pixel_weights(w.f32(), taps, photograph_pixels, codes.data());
      int64_t largest = 0, sum = 0;
      for (const int32_t code : codes) largest = std::max<int64_t>(largest, std::abs(code)), sum += std::abs(code);
      const int limit = largest_pixel_weight(taps * pixel_channels);
      EXPECT_GT(factor, 0);
      EXPECT_LE(largest, limit);
      EXPECT_GE(largest, limit - 2 * pixel_weight_reserve);
      EXPECT_LT(sum * 255 / 256 + 1, int64_t{1} << 31);
    }
}

TEST(PixelArithmetic, GradientScalesFillTheirRange) {
  for (int exponent = -100; exponent < 127; ++exponent)
    for (const float mantissa : {1.0f, 1.1f, 1.9999999f}) {
      const float largest = std::ldexp(mantissa, exponent), scale = pixel_gradient_scale(bits_of(largest));
      EXPECT_LE(largest * scale, float(pixel_limit)) << largest;
      EXPECT_GE(largest * scale, float(pixel_limit - 2)) << largest;
    }
}

TEST(PixelConvolution, RefusesWhatDoesNotFit) {
  const auto backend = make_cpu_backend({Isa::scalar, 1});
  const ConvProblem p = first_layer(1, 8, 8, 4, 3, 1, 1);
  const PixelOperands operands(p);
  const OwnedTensor y(p.y);
  const OwnedTensor three({1, 8, 8, 3}, DType::u8);
  EXPECT_THROW(backend->pixel_forward({p, photograph_pixels, three, operands.w, y}), Error);
  EXPECT_THROW(backend->pixel_backward_weight({p, photograph_pixels, operands.x, operands.dy, {y}}), Error);
  EXPECT_FALSE(takes_pixels(first_layer(1, 16, 16, 4, 12, 1, 0)));
  EXPECT_FALSE(takes_pixels(first_layer(1, 4, 4098, 4, 1, 1, 0)));
  EXPECT_TRUE(takes_pixels(p));
}

}  // namespace
}  // namespace octet
