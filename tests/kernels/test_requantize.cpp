// Convolutions that write codes, against the plain loops: every code, on every instruction set and for several thread
// counts. The plain loops against integers alone.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/conv_codes.h"
#include "kernels/shared/sums.h"
#include "tests/emulated/kernels.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/random_problems.h"

namespace octet {
namespace {
using namespace test;

// A factor with at most 22 bits that brings most sums into the range of codes.
double random_factor(Draw& draw, int64_t products) {
  const double numerator = static_cast<double>(draw.between(1 << 21, (1 << 22) - 1));
  return std::ldexp(numerator, -22 - static_cast<int>(std::log2(40.0 * std::sqrt(static_cast<double>(products)))));
}

// The usual ones, and those with which a rounding in 32 bits would fail: ties, factors that are large, small or 0, and
// sums of up to 31 bits.
enum class Kind { usual, ties, large, small, none, long_sums };
struct RandomRequantization {
  std::vector<int32_t> bias;
  std::vector<double> factor, residual_factor;
  Requantization how;
  RandomRequantization(Draw& draw, const ConvProblem& p, bool adds, DType y) {
    const int64_t products = p.products() / p.y.elements();
    const auto kind_of_all = static_cast<Kind>(draw.between(0, 5));
    for (int64_t c = 0; c < p.y.c; ++c) {
      const Kind kind = draw.between(0, 3) > 0 ? kind_of_all : Kind::usual;
      double own = random_factor(draw, products),
             other = std::ldexp(static_cast<double>(draw.between(0, 1 << 22)), -22);
      int64_t longest = 20000;
      if (kind == Kind::ties) own = std::exp2(std::floor(std::log2(own))), other = draw.coin() ? 0.5 : 0.25;
      if (kind == Kind::large) own *= 512;
      if (kind == Kind::small) own = std::ldexp(own, -static_cast<int>(draw.between(4, 12))), longest = 1 << 24;
      if (kind == Kind::none) own = 0;
      if (kind == Kind::long_sums) own = std::ldexp(own, -10), longest = 1 << 30;
      factor.push_back(own), residual_factor.push_back(other);
      bias.push_back(static_cast<int32_t>(draw.between(-longest, longest)));
    }
    const bool is_unsigned = y == DType::u8;
    how = {bias.data(), factor.data(), adds ? residual_factor.data() : nullptr, is_unsigned ? 0 : -127,
           is_unsigned ? static_cast<int>(draw.between(1, 255)) : 127};
  }
};

OwnedTensor codes_of_type(DType type, Shape shape, uint32_t seed) {
  return (type == DType::u8 ? random_unsigned_codes(shape, seed) : random_codes(shape, seed)).values();
}

class Requantized : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(Tiers, Requantized, testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

enum class Weights { random, ones };
// compute(call, threads) of up to three threads.
template <class Compute>
void expect_equal_codes(const Compute& compute, const std::vector<ConvCase>& cases, Weights weights) {
  const auto plain = make_reference_backend();
  int index = 0;
  for (const ConvCase& c : cases) {
    const NamedCase scope(c.name);
    Draw draw(20, index++);
    const auto any = [&] { return draw.one_of({DType::s8, DType::u8}); };
    const DType type = draw.one_of({DType::s8, DType::u8, DType::f32});
    const bool adds = weights == Weights::random && type != DType::f32 && draw.coin();
    const RandomRequantization rounding(draw, c.problem, adds, type);
    const OwnedTensor x = codes_of_type(any(), c.problem.x, 1), w = codes_of_type(DType::s8, c.problem.weight(), 2);
    if (weights == Weights::ones) std::fill_n(w.s8(), w.elements(), int8_t(1));
    const OwnedTensor residual = adds ? codes_of_type(any(), c.problem.y, 3) : OwnedTensor();
    const OwnedTensor want(c.problem.y, type), got(c.problem.y, type);
    plain->conv_requantize({c.problem, x, w, residual, rounding.how, want});
    for (const int threads : {1, 2, 3}) {
      compute({c.problem, x, w, residual, rounding.how, got}, threads);
      for (int64_t i = 0; i < want.elements(); ++i)
        ASSERT_EQ(got[i], want[i]) << "code " << i << ", " << threads << " threads";
    }
  }
}
void expect_equal_codes(Isa isa, const std::vector<ConvCase>& cases, Weights weights = Weights::random) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const int threads : {1, 2, 3}) backends.push_back(make_cpu_backend({.isa = isa, .threads = threads}));
  expect_equal_codes([&](const ConvRequantizeCall& call,
                         int threads) { backends[static_cast<size_t>(threads - 1)]->conv_requantize(call); },
                     cases, weights);
}

// As the layers of ResNets and MobileNetV2, but with fewer channels: bands of rows, several images at once, rows that
// end within a tile.
std::vector<ConvCase> deployed_cases() {
  return {square_case({1, 61, 59, 3}, 33, 7, 2, 3),         square_case({2, 33, 35, 3}, 32, 3, 2, 1),
          square_case({1, 56, 56, 8}, 24, 1, 1, 0),         square_case({1, 28, 28, 16}, 17, 3, 1, 1),
          square_case({3, 14, 14, 16}, 32, 3, 1, 1),        square_case({1, 29, 28, 16}, 40, 1, 2, 0),
          square_case({1, 14, 14, 32}, 96, 1, 1, 0),        square_case({16, 7, 7, 16}, 48, 3, 1, 1),
          square_case({17, 7, 7, 24}, 33, 1, 1, 0),         square_case({1, 7, 7, 100}, 130, 1, 1, 0),
          square_case({1, 57, 57, 33}, 33, 3, 1, 1, 1, 33), square_case({2, 56, 55, 32}, 32, 3, 2, 1, 1, 32),
          square_case({5, 14, 14, 48}, 48, 3, 1, 1, 1, 48), square_case({1, 7, 7, 130}, 130, 7, 1, 0, 1, 130),
          square_case({1, 1, 1, 1280}, 100, 1, 1, 0),       square_case({16, 1, 1, 256}, 70, 1, 1, 0),
          square_case({99, 1, 1, 64}, 20, 1, 1, 0),         square_case({1, 51, 45, 64}, 9, 1, 1, 0)};
}

// Depthwise layers with unsigned codes have kernels of their own: whole blocks of channels, and all kinds of rests.
std::vector<ConvCase> depthwise_cases() {
  std::vector<ConvCase> cases;
  for (const int64_t channels : {1, 15, 16, 17, 31, 32, 40, 63, 64, 65, 80, 96, 112, 144, 192})
    for (const int stride : {1, 2})
      for (const int pad : {0, 1, 2}) {
        const int64_t side = 3 + channels % 7;
        cases.push_back(square_case({2, side, side + 2, channels}, channels, 3, stride, pad, 1, int(channels)));
      }
  return cases;
}

// Means over images, which are such convolutions with weights of 1, have kernels of their own.
std::vector<ConvCase> mean_cases() {
  std::vector<ConvCase> cases;
  for (const int64_t channels : {1, 63, 64, 65, 130})
    for (const int side : {1, 4, 7})
      for (const int64_t images : {1, 3})
        cases.push_back(square_case({images, side, side, channels}, channels, side, 1, 0, 1, int(channels)));
  return cases;
}

TEST_P(Requantized, EqualsThePlainLoops) {
  expect_equal_codes(GetParam(), conv_cases());
  expect_equal_codes(GetParam(), random_conv_cases(60));
  expect_equal_codes(GetParam(), deployed_cases());
  expect_equal_codes(GetParam(), depthwise_cases());
  expect_equal_codes(GetParam(), mean_cases(), Weights::ones);
}

#if defined(__x86_64__)
// Kernels whose instructions are emulated (tests/emulated), on what is read as it lies and ends with the last pixel.
TEST(EmulatedRequantized, EqualsThePlainLoops) {
  const auto expect_so = [](const char* name, const cpu::ContractionKernels& kernels) {
    const NamedCase scope(name);
    const auto compute = [&](const ConvRequantizeCall& call, int threads) {
      std::vector<cpu::Scratch> packed(static_cast<size_t>(threads));
      cpu::CodeConvolution(kernels, call, packed).run(call.x, call.residual, call.y);
    };
    expect_equal_codes(compute, deployed_cases(), Weights::random);
  };
  expect_so("neon_dot", cpu::neon_dot::code_kernels);
  expect_so("neon_i8mm", cpu::neon_i8mm::code_kernels);
  if (best_isa() >= Isa::avx512_vnni) expect_so("amx", cpu::amx_emulated::code_kernels);
}
#endif

// Constants that are kept serve other images, and the caller may free his own.
TEST_P(Requantized, KeepsConstants) {
  const auto plain = make_reference_backend(), backend = make_cpu_backend({.isa = GetParam(), .threads = 2});
  const ConvProblem p = square_case({2, 9, 9, 20}, 35, 3, 1, 1).problem;
  Draw draw(22, 0);
  const RandomRequantization rounding(draw, p, true, DType::u8);
  const OwnedTensor w = codes_of_type(DType::s8, p.weight(), 2), want(p.y, DType::u8), got(p.y, DType::u8);
  for (Backend* const of : {plain.get(), backend.get()}) {
    std::unique_ptr<ReadyConvolution> ready;
    {
      const RandomRequantization copy = rounding;
      const OwnedTensor weights = codes_of_type(DType::s8, p.weight(), 2), x = codes_of_type(DType::u8, p.x, 9);
      Requantization how = copy.how;
      how.bias = copy.bias.data(), how.factor = copy.factor.data(), how.residual_factor = copy.residual_factor.data();
      ready = of->make_ready({p, x, weights, codes_of_type(DType::s8, p.y, 3), how, got});
    }
    for (const uint32_t seed : {4, 5}) {
      const OwnedTensor x = codes_of_type(DType::u8, p.x, seed), residual = codes_of_type(DType::s8, p.y, seed + 10);
      plain->conv_requantize({p, x, w, residual, rounding.how, want});
      ready->run(x, residual, got);
      for (int64_t i = 0; i < want.elements(); ++i) ASSERT_EQ(got[i], want[i]) << "code " << i;
    }
  }
}

// floor(x / 2^shift + 1/2), but ties go to the even neighbour.
int64_t rounded_to_even(int64_t x, int shift) {
  const int64_t floor = x >> shift, rest = x - (floor << shift), half = int64_t{1} << (shift - 1);
  return floor + (rest > half || (rest == half && floor % 2 != 0));
}

TEST(RequantizedPlainly, IsArithmeticOfIntegers) {
  const ConvProblem p{.x = {1, 1, 1, 1}, .y = {1, 1, 1, 1}};
  const auto plain = make_reference_backend();
  Draw draw(21, 0);
  const OwnedTensor x(p.x, DType::s8), w(p.weight(), DType::s8), residual(p.y, DType::s8), y(p.y, DType::s8);
  for (int i = 0; i < 20000; ++i) {
    x.s8()[0] = static_cast<int8_t>(draw.between(-127, 127)), w.s8()[0] = static_cast<int8_t>(draw.between(-127, 127));
    residual.s8()[0] = static_cast<int8_t>(draw.between(-127, 127));
    const int shift = static_cast<int>(draw.between(21, 44));
    // Every second time a power of two, so that ties are met.
    const int64_t multiplier = draw.coin() ? int64_t{1} << draw.between(0, 21) : draw.between(0, (1 << 22) - 1);
    const int64_t residual_multiplier = draw.coin() ? int64_t{1} << (shift - 1) : draw.between(0, int64_t{1} << 30);
    const auto bias = static_cast<int32_t>(draw.between(-(int64_t{1} << 30), int64_t{1} << 30) >> draw.between(0, 30));
    const double factor = std::ldexp(static_cast<double>(multiplier), -shift);
    const double residual_factor = std::ldexp(static_cast<double>(residual_multiplier), -shift);
    plain->conv_requantize({p, x, w, residual, {&bias, &factor, &residual_factor, -127, 127}, y});
    const int64_t exact = (x.s8()[0] * w.s8()[0] + int64_t{bias}) * multiplier + residual.s8()[0] * residual_multiplier;
    ASSERT_EQ(y.s8()[0], std::clamp<int64_t>(rounded_to_even(exact, shift), -127, 127))
        << "of 2^-" << shift << " * " << exact;
  }
}

TEST(RequantizedPlainly, RefusesWhatDoesNotFit) {
  const ConvProblem p{.x = {1, 1, 1, 1}, .y = {1, 1, 1, 1}};
  const auto plain = make_reference_backend();
  const OwnedTensor x(p.x, DType::s8), y(p.y, DType::s8), real(p.y);
  const int32_t bias = 0;
  const double factor = 1;
  const Requantization how{&bias, &factor, nullptr, -127, 127};
  plain->conv_requantize({p, x, x, {}, how, y});
  EXPECT_THROW(plain->conv_requantize({p, x, x, x, how, y}), Error);      // a residual without factors
  EXPECT_THROW(plain->conv_requantize({p, real, x, {}, how, y}), Error);  // real numbers
  EXPECT_THROW(plain->conv_requantize({p, x, x, {}, {&bias, &factor, nullptr, 0, 255}, y}), Error);  // bounds of u8
  EXPECT_THROW(plain->conv_requantize({p, x, x, {}, {&bias, nullptr, nullptr, -127, 127}, y}), Error);
}

}  // namespace
}  // namespace octet
