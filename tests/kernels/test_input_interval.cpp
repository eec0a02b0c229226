// The interval of inputs that an activation lets pass is exactly the one that the norm's own arithmetic gives.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/input_interval.h"
#include "tests/kernels/cases.h"

namespace octet {
namespace {
using test::random_number;

constexpr float unbounded = std::numeric_limits<float>::infinity();

void expect_exact(AffineCoefficients affine, float low, float high) {
  const cpu::Interval interval = cpu::inputs_between(affine, low, high);
  const auto check = [&](float x) {
    const float z = affine.a * x + affine.b;
    EXPECT_EQ(x > interval.low && x<interval.high, z> low && z < high)
        << x << " times " << affine.a << " plus " << affine.b << " between " << low << " and " << high;
  };
  for (const float edge : {interval.low, interval.high, 0.0f}) {
    if (!std::isfinite(edge)) continue;
    for (int64_t rank = cpu::rank_of(edge) - 40; rank <= cpu::rank_of(edge) + 40; ++rank) check(cpu::float_at(rank));
  }
  for (int i = 0; i < 50; ++i) check(random_number(3, i) * 20);
}

TEST(InputInterval, IsExactAtItsEdges) {
  for (int i = 0; i < 2000; ++i) {
    const AffineCoefficients affine{random_number(1, i) * 3, random_number(2, i) * 7};
    expect_exact(affine, 0, unbounded);
    expect_exact(affine, 0, 6);
  }
  // An offset next to a bound, where many inputs round to one value; tiny and huge slopes; no offset.
  for (const float a : {1.0f, -1.0f, 1e-6f, -3e-7f, 1e6f, 0.3333333f})
    for (const float b : {6.0f, std::nextafter(6.0f, 0.0f), -0.0f, 0.0f, 1e-9f, -1e-9f, 5.9999f, -1e6f}) {
      expect_exact({a, b}, 0, unbounded);
      expect_exact({a, b}, 0, 6);
    }
}

TEST(InputInterval, OfAConstantIsAllOrNothing) {
  EXPECT_EQ(cpu::inputs_between({0, 1}, 0, 6).low, -unbounded);
  EXPECT_EQ(cpu::inputs_between({0, 1}, 0, 6).high, unbounded);
  for (const AffineCoefficients none : {AffineCoefficients{0, -1}, AffineCoefficients{0, 6},
                                        AffineCoefficients{std::numeric_limits<float>::quiet_NaN(), 1}}) {
    const cpu::Interval interval = cpu::inputs_between(none, 0, 6);
    EXPECT_FALSE(interval.low < interval.high);
  }
}

}  // namespace
}  // namespace octet
