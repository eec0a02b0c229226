// The reference backend against direct formulas and known answers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/shared/affine.h"
#include "tests/kernels/passes.h"

namespace octet {
namespace {
using namespace test;

class Reference : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();
};

// One output of a convolution of codes, straight from the definition.
int64_t direct(const ConvProblem& p, const OwnedQTensor& x, const OwnedQTensor& w, int64_t n, int64_t row,
               int64_t column, int64_t output) {
  const int64_t inputs = p.x.c / p.groups, group = output / (p.y.c / p.groups);
  int64_t sum = 0;
  for (int64_t i = 0; i < p.kernel_h * p.kernel_w * inputs; ++i) {
    const int64_t input = i % inputs, kernel_column = i / inputs % p.kernel_w, kernel_row = i / inputs / p.kernel_w;
    const int64_t h = row * p.stride_h + kernel_row * p.dilation_h - p.pad_h;
    const int64_t v = column * p.stride_w + kernel_column * p.dilation_w - p.pad_w;
    if (h < 0 || v < 0 || h >= p.x.h || v >= p.x.w) continue;
    sum += x.s8()[((n * p.x.h + h) * p.x.w + v) * p.x.c + group * inputs + input] *
           w.s8()[output * p.kernel_h * p.kernel_w * inputs + i];
  }
  return sum;
}

double inner_product(const OwnedTensor& a, const OwnedTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.elements(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST_F(Reference, ConvolutionForwardIsTheDefinition) {
  for (const auto& [name, p] : conv_cases()) {
    const OwnedQTensor x = random_codes(p.x, 1), w = random_codes(p.weight(), 2);
    const OwnedTensor y(p.y);
    const OwnedMoments moments(p.y.c);
    const Moments of_output = moments;
    backend->conv_forward({p, x, w, y, {&of_output, 1}});
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t channel = i % p.y.c, column = i / p.y.c % p.y.w, row = i / p.y.c / p.y.w % p.y.h;
      const int64_t total = direct(p, x, w, i / p.y.c / p.y.w / p.y.h, row, column, channel);
      ASSERT_EQ(y[i], static_cast<float>(total) * (*x.scale() * *w.scale())) << name << ", element " << i;
    }
    double sum = 0, magnitude = 0;  // y is rounded to f32, the sums that the mean is of are not
    float high = -1e30f;
    for (int64_t i = p.y.c - 1; i < y.elements(); i += p.y.c)
      sum += y[i], magnitude += std::fabs(y[i]), high = std::max(high, y[i]);
    ASSERT_NEAR(moments.mean[p.y.c - 1], sum / p.y.pixels(), magnitude / p.y.pixels() * 1e-6) << name;
    ASSERT_EQ(moments.max[p.y.c - 1], high) << name;
  }
}

// <conv(x, w), dy> = <x, backward_data(dy, w)> = <w, backward_weight(x, dy)>, with codes so small that floats are
// exact.
TEST_F(Reference, ConvolutionBackwardIsTheAdjoint) {
  for (const auto& [name, p] : conv_cases()) {
    const OwnedQTensor x = random_codes(p.x, 1, 3), w = random_codes(p.weight(), 2, 3);
    const OwnedQTensor dy = random_codes(p.y, 3, 3);
    for (const OwnedQTensor* tensor : {&x, &w, &dy}) *tensor->scale() = 1;
    const OwnedTensor y(p.y), dx(p.x), dw(p.weight());
    backend->conv_forward({p, x, w, y});
    backend->conv_backward_data({p, dy, w, {dx}});
    backend->conv_backward_weight({p, x, dy, {dw}});
    const double loss = inner_product(y, dy.values());
    ASSERT_EQ(loss, inner_product(dx, x.values())) << name;
    ASSERT_EQ(loss, inner_product(dw, w.values())) << name;
  }
}

TEST_F(Reference, LongSumsDoNotOverflow) {
  const ConvProblem p = square_case({1, 1, 1, 140000}, 1, 1, 1, 0).problem;
  const OwnedQTensor x(OwnedTensor(p.x, DType::s8));
  memset(x.s8(), 127, static_cast<size_t>(p.x.c));
  *x.scale() = 1;
  const OwnedTensor y(p.y);
  backend->conv_forward({p, x, x, y});
  EXPECT_EQ(y[0], static_cast<float>(int64_t{127} * 127 * 140000));
}

TEST_F(Reference, AddsInFloatBeforeRoundingToBf16) {
  const ConvProblem p = square_case({2, 4, 4, 5}, 7, 3, 1, 1).problem;
  const OwnedQTensor dy = random_codes(p.y, 1), w = random_codes(p.weight(), 2);
  const OwnedTensor exact(p.x), before = random_real(p.x, 3, 1, DType::bf16),
                                after = random_real(p.x, 3, 1, DType::bf16);
  backend->conv_backward_data({p, dy, w, {exact}});
  backend->conv_backward_data({p, dy, w, {after, true}});
  for (int64_t i = 0; i < exact.elements(); ++i) ASSERT_EQ(after[i], from_bf16(to_bf16(before[i] + exact[i])));
}

TEST_F(Reference, QuantizeWritesScaleCodesAndProbe) {
  const OwnedTensor src = random_real({4, 3, 3, 5}, 1, 3);
  const OwnedQTensor codes(OwnedTensor(src.view().shape, DType::s8));
  float largest = 0, held = 1.25f;
  uint64_t beyond = 0;
  for (int64_t i = 0; i < src.elements(); ++i)
    largest = std::max(largest, std::fabs(src[i])), beyond += std::fabs(src[i]) > held;
  for (const Range range : {Range::absmax, Range::held}) {
    for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
      const Encoding encoding{DType::s8, 127, rounding, range, &held};
      std::vector<uint32_t> histogram(histogram_bins);
      uint64_t saturated = 0;
      backend->quantize({src, encoding, {1, 2, 3, 4}, codes, {histogram.data(), &saturated}});
      const float clip = range == Range::absmax ? largest : held;
      EXPECT_EQ(*codes.scale(), clip / 127);
      EXPECT_EQ(saturated, range == Range::held ? beyond : 0);
      EXPECT_EQ(std::accumulate(histogram.begin(), histogram.end(), int64_t{0}), src.elements());
      for (int64_t i = 0; i < src.elements(); ++i) {
        const float wanted = std::min(std::max(src[i], -clip), clip);
        EXPECT_LE(std::fabs(reference::value(codes, i) - wanted),
                  *codes.scale() * (rounding == Rounding::nearest ? 0.50001f : 1.0f));
      }
    }
  }
  held = 0;
  EXPECT_THROW(backend->quantize({src, {DType::s8, 127, Rounding::nearest, Range::held, &held}, {}, codes, {}}), Error);
}

// A rank that holds the second half of the batch gives the second half of the codes.
TEST_F(Reference, RandomBitsFollowTheGlobalElement) {
  const OwnedTensor all = random_real({4, 3, 5, 7}, 1);
  const int64_t half = all.elements() / 2;
  const float clip = 1;
  const Encoding encoding{DType::s8, 127, Rounding::stochastic, Range::held, &clip};
  const OwnedQTensor whole(OwnedTensor({4, 3, 5, 7}, DType::s8)), part(OwnedTensor({2, 3, 5, 7}, DType::s8));
  backend->quantize({all, encoding, {1, 2, 3, 0}, whole, {}});
  backend->quantize({{all.f32() + half, {2, 3, 5, 7}}, encoding, {1, 2, 3, static_cast<uint64_t>(half)}, part, {}});
  EXPECT_EQ(memcmp(part.s8(), whole.s8() + half, static_cast<size_t>(half)), 0);
}

TEST_F(Reference, AffineEncodesItsOwnRealResult) {
  const Shape shape{2, 5, 3, 9};
  const ConvProblem identity = square_case(shape, 9, 1, 1, 0, 1, 9).problem;
  const OwnedTensor ones({9, 1, 1, 1}), x(shape), gamma = random_real({1, 1, 1, 9}, 2, 2),
                                                  beta = random_real({1, 1, 1, 9}, 3);
  for (int64_t i = 0; i < 9; ++i) ones.f32()[i] = 1;
  const OwnedMoments moments(9);
  const Moments of_x = moments;
  backend->conv_forward(
      {identity, random_real_operand(shape, 1, 4), {ones}, x, {&of_x, 1}});  // x and its exact moments
  const OwnedQTensor residual = random_codes(shape, 4);
  // The largest result comes from the largest input of a channel, or, after gamma's sign is turned, from the smallest.
  for (const bool with_residual : {false, true}) {
    for (const float sign : {1.0f, -1.0f}) {
      for (int64_t i = 0; i < 9; ++i) gamma.f32()[i] = sign * std::fabs(gamma[i]);
      AffineProblem problem;
      problem.shape = shape;
      problem.activation = Activation::relu;
      const QTensor added = with_residual ? residual.view() : QTensor{};
      const OwnedTensor real(shape);
      const OwnedQTensor codes(OwnedTensor(shape, DType::s8));
      const Encoding encoding{DType::s8, 127};
      backend->affine_forward({problem, x, moments, {gamma.f32(), beta.f32()}, added, {}, {}, {real}, {}});
      backend->affine_forward({problem, x, moments, {gamma.f32(), beta.f32()}, added, encoding, {}, codes, {}});
      float clip = 0;
      for (int64_t i = 0; i < real.elements(); ++i) clip = std::max(clip, real[i]);
      ASSERT_EQ(*codes.scale(), clip / 127);
      for (int64_t i = 0; i < real.elements(); ++i) {
        ASSERT_EQ(codes.s8()[i], encode_nearest(real[i], inverse_scale_of(clip, 127), -127, 127));
      }
    }
  }
}

TEST_F(Reference, AffineBackwardEncodesAddsAndMeasures) {
  const Shape shape{2, 3, 3, 4};
  const OwnedTensor x = random_real(shape, 1), dy = random_real(shape, 2), real(shape),
                    gamma = random_real({1, 1, 1, 4}, 3);
  const OwnedTensor beta = random_real({1, 1, 1, 4}, 4), d_gamma({1, 1, 1, 4}), d_beta({1, 1, 1, 4}), d_residual(shape);
  const OwnedMoments moments(4);
  for (int i = 0; i < 4; ++i) moments.mean.f32()[i] = 0.1f, moments.variance.f32()[i] = 0.3f;
  AffineProblem problem;
  problem.shape = shape;
  problem.activation = Activation::relu;
  const AffineParameters parameters{gamma.f32(), beta.f32()};
  const OwnedTensor mask = passes::mask_of(*backend, problem, x, moments, parameters, {});
  const auto run = [&](bool add, const Encoding& encoding, QTensor error, Probe probe) {
    backend->affine_backward({problem,
                              x,
                              moments,
                              parameters,
                              mask,
                              dy,
                              {d_gamma, add},
                              {d_beta, add},
                              {d_residual, add},
                              encoding,
                              {5, 6, 7, 8},
                              error,
                              probe});
  };
  const auto snapshot = [&] {
    std::vector<float> values;
    for (const OwnedTensor* tensor : {&d_gamma, &d_beta, &d_residual}) {
      for (int64_t i = 0; i < tensor->elements(); ++i) values.push_back((*tensor)[i]);
    }
    return values;
  };
  std::vector<uint32_t> measured(histogram_bins), histogram(histogram_bins);
  uint64_t saturated = 0;
  run(false, {}, {}, {measured.data(), &saturated});
  for (const float value : snapshot()) ASSERT_EQ(value, 0) << "measuring must write nothing else";
  EXPECT_EQ(saturated, 0u);

  run(false, {}, {real}, {histogram.data(), nullptr});
  EXPECT_EQ(measured, histogram);
  const std::vector<float> once = snapshot();
  const float held = 0.2f;
  const OwnedQTensor codes(OwnedTensor(shape, DType::s8));
  run(true, {DType::s8, 127, Rounding::stochastic, Range::held, &held}, codes, {nullptr, &saturated});
  const std::vector<float> twice = snapshot();
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], once[i] + once[i]);
  EXPECT_EQ(*codes.scale(), held / 127);
  uint64_t beyond = 0;
  for (int64_t i = 0; i < real.elements(); ++i) {
    beyond += std::fabs(real[i]) > held;
    ASSERT_EQ(codes.s8()[i],
              encode_stochastic(real[i], inverse_scale_of(held, 127), 127, random_bits16({5, 6, 7, 8}, i)));
  }
  EXPECT_EQ(saturated, beyond);
  EXPECT_GT(beyond, 0u);
}

// Codes kept for backward: half a step from the convolution's output, and backward is that of what they stand for.
TEST_F(Reference, BackwardOfKeptCodesIsThatOfWhatTheyStandFor) {
  const Shape shape{3, 5, 7, 6};
  const int64_t channels = shape.c;
  const OwnedTensor gamma = random_real({1, 1, 1, channels}, 3), beta = random_real({1, 1, 1, channels}, 4), y(shape);
  const OwnedTensor dy = random_real(shape, 2), stands_for(shape);
  OwnedConvolved x(shape, 1, DType::bf16);
  for (int64_t i = 5; i < shape.elements(); i += channels) x.real.view().as<uint16_t>()[i] = to_bf16(3);  // constant
  const OwnedMoments moments(channels);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    moments.min.f32()[c] = moments.max.f32()[c] = x.real[c];
    for (int64_t i = c; i < shape.elements(); i += channels) {
      sum += x.real[i], squares += x.real[i] * x.real[i];
      moments.min.f32()[c] = std::min(moments.min.f32()[c], x.real[i]);
      moments.max.f32()[c] = std::max(moments.max.f32()[c], x.real[i]);
    }
    moments.mean.f32()[c] = static_cast<float>(sum / shape.pixels());
    moments.variance.f32()[c] = static_cast<float>(squares / shape.pixels() - std::pow(sum / shape.pixels(), 2));
  }
  x.with_codes();
  const Convolved kept = x;
  const AffineParameters parameters{gamma.f32(), beta.f32()};
  for (const bool normalize : {true, false})
    for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
      AffineProblem problem{shape, normalize};
      problem.activation = activation;
      backend->affine_forward({problem, x, moments, parameters, {}, {}, {}, {y}, {}});
      const OwnedTensor mask = passes::mask_of(*backend, problem, x.real, moments, parameters, {});
      for (int64_t i = 0; i < shape.elements(); ++i) {
        const float scale = kept.scale[i % channels];
        stands_for.f32()[i] = kept.offset[i % channels] + scale * x.codes[i];
        ASSERT_NEAR(stands_for[i], x.real[i], 0.5001f * scale);
        if (x.real[i] == moments.max.f32()[i % channels]) {
          ASSERT_EQ(x.codes[i], scale > 0 ? 127 : 0);
        }
        if (x.real[i] == moments.min.f32()[i % channels]) {
          ASSERT_EQ(x.codes[i], scale > 0 ? -127 : 0);
        }
      }
      const auto backward = [&](const Convolved& from) {
        const OwnedTensor error(shape), d_gamma({1, 1, 1, channels}), d_beta({1, 1, 1, channels});
        backend->affine_backward({problem,
                                  from,
                                  moments,
                                  parameters,
                                  mask,
                                  dy,
                                  normalize ? Into{d_gamma} : Into{},
                                  {d_beta},
                                  {},
                                  {},
                                  {},
                                  {error},
                                  {}});
        return std::vector<OwnedTensor>{error, d_gamma, d_beta};
      };
      const std::vector<OwnedTensor> codes = backward(x), real = backward(stands_for);
      for (size_t i = 0; i < codes.size(); ++i)
        for (int64_t j = 0; j < codes[i].elements(); ++j)
          ASSERT_NEAR(codes[i][j], real[i][j], 1e-4f * (1 + std::fabs(real[i][j]))) << i << ' ' << j;
    }
}

// The gradient passes a sum that is positive, also one so small that its code is 0.
TEST_F(Reference, AffineBackwardJudgesTheSumItself) {
  const Shape shape{1, 1, 1, 5};
  const OwnedTensor x(shape), dy(shape), error(shape);
  const OwnedQTensor residual(OwnedTensor(shape, DType::s8)), coded(OwnedTensor(shape, DType::s8));
  const int8_t codes[] = {-3, 1, 2, 60, 127};
  const float numbers[] = {0.29f, -0.1f, -0.19f, 0, 0};  // sums: -0.01, 0, 0.01, 6, 12.7
  memcpy(residual.s8(), codes, sizeof codes);
  memcpy(x.f32(), numbers, sizeof numbers);
  *residual.scale() = 0.1f;
  for (int i = 0; i < 5; ++i) dy.f32()[i] = static_cast<float>(i + 1);
  AffineProblem problem;
  problem.shape = shape;
  problem.normalize = false;
  for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
    problem.activation = activation;
    const OwnedTensor mask = passes::mask_of(*backend, problem, x, {}, {}, residual);
    backend->affine_backward({problem, x, {}, {}, mask, dy, {}, {}, {}, {}, {}, {error}, {}});
    const bool none = activation == Activation::none;
    EXPECT_EQ(error[0], none ? 1 : 0);
    EXPECT_EQ(error[1], none ? 2 : 0);
    EXPECT_EQ(error[2], 3);
    EXPECT_EQ(error[4], activation == Activation::relu6 ? 0 : 5);
  }
  problem.activation = Activation::relu;
  backend->affine_forward({problem, x, {}, {}, residual, {DType::s8}, {}, coded, {}});
  EXPECT_EQ(coded.s8()[2], 0);
}

TEST_F(Reference, PoolsOfCodes) {
  const OwnedQTensor x(OwnedTensor({1, 2, 2, 2}, DType::s8)), y(OwnedTensor({1, 1, 1, 2}, DType::s8));
  const int8_t values[] = {5, 1, 5, 2, -7, 3, 4, 4};  // channel 0: 5 5 -7 4, channel 1: 1 2 3 4
  memcpy(x.s8(), values, sizeof values);
  *x.scale() = 0.5f;
  PoolProblem problem{{1, 2, 2, 2}, {1, 1, 1, 2}};
  const OwnedTensor choices(problem.y, DType::u8);
  backend->pool_forward({problem, x, y, choices});
  EXPECT_EQ(choices[0], 0);
  EXPECT_EQ(choices[1], 3);
  EXPECT_EQ(y.s8()[0], 5);
  EXPECT_EQ(y.s8()[1], 4);
  EXPECT_EQ(*y.scale(), 0.5f);
  const OwnedTensor dy({1, 1, 1, 2}), dx({1, 2, 2, 2});
  dy.f32()[0] = 10, dy.f32()[1] = 20;
  backend->pool_backward({problem, choices, dy, {dx}});
  EXPECT_EQ(dx[0], 10) << "the first of two equal ones";
  EXPECT_EQ(dx[2], 0);
  EXPECT_EQ(dx[7], 20);
  problem.kind = PoolKind::average;
  backend->pool_forward({problem, x, y});
  EXPECT_EQ(y.s8()[0], 2);  // 7 / 4
  EXPECT_EQ(y.s8()[1], 2);  // 2.5 to even
  const OwnedTensor mean({1, 1, 1, 2});
  backend->global_pool_forward({x, mean});
  EXPECT_EQ(mean[0], 0.875f);
  EXPECT_EQ(mean[1], 1.25f);
}

TEST_F(Reference, PoolsRepeatAndRectify) {
  const OwnedQTensor x(OwnedTensor({1, 1, 2, 2}, DType::s8)), y(OwnedTensor({1, 2, 4, 2}, DType::s8));
  const int8_t values[] = {5, -1, -7, 3};
  memcpy(x.s8(), values, sizeof values);
  *x.scale() = 0.5f;
  PoolProblem repeat{{1, 1, 2, 2}, {1, 2, 4, 2}, 2};
  repeat.kind = PoolKind::repeat;
  backend->pool_forward({repeat, x, y});
  const int8_t repeated[] = {5, -1, 5, -1, -7, 3, -7, 3};
  EXPECT_EQ(memcmp(y.s8(), repeated, 8), 0);
  EXPECT_EQ(memcmp(y.s8() + 8, repeated, 8), 0);
  EXPECT_EQ(*y.scale(), 0.5f);
  const OwnedTensor dy({1, 2, 4, 2}), dx({1, 1, 2, 2});
  for (int64_t i = 0; i < 16; ++i) dy.f32()[i] = static_cast<float>(i);
  backend->pool_backward({repeat, {}, dy, {dx}});
  const float sums[] = {20, 24, 36, 40};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(dx[i], sums[i]);
  PoolProblem relu{{1, 1, 2, 2}, {1, 1, 2, 2}, 1, 1};
  relu.rectify = true;
  const OwnedTensor choices(relu.y, DType::u8);
  backend->pool_forward({relu, x, {{y.s8(), relu.y, DType::s8}, y.scale()}, choices});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.s8()[i], std::max<int8_t>(values[i], 0));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(choices[i], values[i] > 0 ? 0 : no_choice);
  backend->pool_backward({relu, choices, {dy.f32(), relu.y}, {dx}});
  PoolProblem large = relu;
  large.kernel = most_choices + 1, large.x = {1, 16, 16, 1}, large.y = {1, 1, 1, 1};
  EXPECT_THROW(backend->pool_backward({large, choices, {dy.f32(), large.y}, {{dx.f32(), large.x}}}), Error);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(dx[i], values[i] > 0 ? dy[i] : 0);
  relu.kind = PoolKind::average;
  EXPECT_THROW(backend->pool_forward({relu, x, {{y.s8(), relu.y, DType::s8}, y.scale()}}), Error);
}

TEST_F(Reference, ConcatenationTakesTheLargestScale) {
  const OwnedQTensor a(OwnedTensor({1, 1, 1, 2}, DType::s8)), b(OwnedTensor({1, 1, 1, 1}, DType::s8));
  const OwnedQTensor y(OwnedTensor({1, 1, 1, 3}, DType::s8));
  a.s8()[0] = 127, a.s8()[1] = -10, b.s8()[0] = 99;
  *a.scale() = 0.25f, *b.scale() = 1;
  const QTensor parts[] = {a, b};
  backend->concat_forward({parts, y});
  EXPECT_EQ(*y.scale(), 1);
  EXPECT_EQ(y.s8()[0], 32);  // 31.75
  EXPECT_EQ(y.s8()[1], -2);  // -2.5 to even
  EXPECT_EQ(y.s8()[2], 99);
}

TEST_F(Reference, SoftmaxRanksAndSurvivesAnyFiniteLogits) {
  const float biggest = std::numeric_limits<float>::max();
  const OwnedTensor logits({4, 1, 1, 6}), gradient({4, 1, 1, 6});
  const float rows[4][6] = {
      {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, {biggest, -biggest, 0, 0, 0, 0}, {9, 9, 9, 9, 9, 9}};
  memcpy(logits.f32(), rows, sizeof rows);
  const int32_t labels[] = {0, 5, 0, -1};
  LossReport report, few;
  backend->softmax_loss({logits, labels, nullptr, 0, 1, gradient, &report});
  EXPECT_EQ(report.count, 3);
  EXPECT_EQ(report.hits[0], 2) << "of equal logits the first wins";
  EXPECT_EQ(report.hits[1], 2);
  EXPECT_NEAR(report.loss_sum, 2 * std::log(6.0), 1e-9);
  EXPECT_NEAR(gradient[0], 1.0 / 6 - 1, 1e-7);
  EXPECT_EQ(gradient[12], 0);
  for (int i = 18; i < 24; ++i) EXPECT_EQ(gradient[i], 0) << "padding";
  const int32_t last[] = {2};
  backend->softmax_loss({{logits.f32(), {1, 1, 1, 3}}, last, nullptr, 0, 1, {}, &few});
  EXPECT_EQ(few.hits[0], 0);
  EXPECT_EQ(few.hits[1], 1) << "of fewer than five classes all are among the first five";
  const float broken[2][6] = {{NAN, NAN, NAN, NAN, NAN, NAN}, {NAN, 1, 2, 3, 4, 5}};
  memcpy(logits.f32(), broken, sizeof broken);
  const int32_t any[] = {0, 5};
  backend->softmax_loss({{logits.f32(), {2, 1, 1, 6}}, any, nullptr, 0, 1, {}, &few});
  EXPECT_EQ(few.hits[0], 0) << "not a number is not an answer";
  EXPECT_EQ(few.hits[1], 1);
  const int32_t wrong[] = {6, 0, 0, 0};
  EXPECT_THROW(backend->softmax_loss({logits, wrong, nullptr, 0, 1, {}, &few}), Error);
}

TEST_F(Reference, FiniteAndMemory) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const OwnedTensor x = random_real({1, 1, 1, 33}, 1, 1, type);
    EXPECT_TRUE(backend->all_finite(x));
    static_cast<uint8_t*>(x.view().data)[x.view().bytes() - 1] = 0x7F;
    static_cast<uint8_t*>(x.view().data)[x.view().bytes() - 2] = 0x80;
    EXPECT_FALSE(backend->all_finite(x));
  }
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20}) {
    const auto buffer = backend->allocate(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    for (size_t i = 0; i < bytes; i += 97) ASSERT_EQ(static_cast<uint8_t*>(buffer->data())[i], 0);
  }
}

TEST_F(Reference, ErrorsSayHowToMend) {
  ConvProblem problem = square_case({1, 4, 4, 6}, 6, 3, 1, 1).problem;
  const OwnedQTensor x = random_codes(problem.x, 1), w = random_codes(problem.weight(), 2);
  const OwnedTensor y(problem.y);
  EXPECT_THROW(backend->conv_forward({problem, x, {random_real(problem.weight(), 1)}, y}), Error);
  ConvProblem longer = problem;
  longer.y.h = 6;  // two zeros more behind the image than before it
  EXPECT_THROW(backend->conv_forward({longer, x, w, OwnedTensor(longer.y)}), Error);
  problem.groups = 4;
  try {
    backend->conv_forward({problem, x, w, y});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fix:"), std::string::npos);
  }
}

}  // namespace
}  // namespace octet
