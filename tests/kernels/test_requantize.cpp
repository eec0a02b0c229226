// Convolutions that write codes, against the plain loops: every code, on every instruction set and for several thread
// counts. The plain loops against integers alone.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/shared/sums.h"
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

struct RandomRequantization {
  std::vector<int32_t> bias;
  std::vector<double> factor, residual_factor;
  Requantization how;
  RandomRequantization(Draw& draw, const ConvProblem& p, bool adds, DType y) {
    const int64_t products = p.products() / p.y.elements();
    for (int64_t c = 0; c < p.y.c; ++c) {
      factor.push_back(random_factor(draw, products));
      residual_factor.push_back(std::ldexp(static_cast<double>(draw.between(0, 1 << 22)), -22));
      bias.push_back(static_cast<int32_t>(draw.between(-20000, 20000)));
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

void expect_equal_codes(Backend& backend, const std::vector<ConvCase>& cases) {
  const auto plain = make_reference_backend();
  int index = 0;
  for (const ConvCase& c : cases) {
    const NamedCase scope(c.name);
    Draw draw(20, index++);
    const auto any = [&] { return draw.one_of({DType::s8, DType::u8}); };
    const DType type = draw.one_of({DType::s8, DType::u8, DType::f32});
    const bool adds = type != DType::f32 && draw.coin();
    const RandomRequantization rounding(draw, c.problem, adds, type);
    const OwnedTensor x = codes_of_type(any(), c.problem.x, 1), w = codes_of_type(DType::s8, c.problem.weight(), 2);
    const OwnedTensor residual = adds ? codes_of_type(any(), c.problem.y, 3) : OwnedTensor();
    const OwnedTensor want(c.problem.y, type), got(c.problem.y, type);
    plain->conv_requantize({c.problem, x, w, residual, rounding.how, want});
    backend.conv_requantize({c.problem, x, w, residual, rounding.how, got});
    for (int64_t i = 0; i < want.elements(); ++i) ASSERT_EQ(got[i], want[i]) << "code " << i;
  }
}

TEST_P(Requantized, EqualsThePlainLoops) {
  for (const int threads : {1, 2, 3}) {
    const NamedCase scope(say(threads, " threads"));
    const auto backend = make_cpu_backend({.isa = GetParam(), .threads = threads});
    expect_equal_codes(*backend, conv_cases());
    expect_equal_codes(*backend, random_conv_cases(60));
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
