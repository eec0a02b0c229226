// exp and log in double, from additions and multiplications in a fixed order. They give the same bits on every
// instruction set and device, which the functions of a math library do not promise. The relative error is below 1e-14.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/shared/random.h"

namespace octet {

inline constexpr double ln2_high =
    6.93147180369123816490e-01;  // the upper 32 bits: exact when multiplied by an exponent
inline constexpr double ln2_low = 1.90821492927058770002e-10;  // the rest
// A constant, so that files of an instruction set call no function of the library, which the linker could merge.
inline constexpr double infinite_double = std::numeric_limits<double>::infinity();

// e^x. Below -708 the result is 0 (no subnormal numbers), above 709 infinity; NaN stays NaN.
OCTET_BOTH double exponential(double x) {
  if (x != x) return x;
  if (x < -708) return 0;
  if (x > 709) return infinite_double;
  const double magic = 6755399441055744.0;  // 1.5 * 2^52: no bits below the point remain
  const double k = (x * 1.44269504088896340736 + magic) - magic;
  const double r = (x - k * ln2_high) - k * ln2_low;  // |r| <= ln 2 / 2
  double sum = 1;
  for (int n = 13; n > 0; --n) sum = 1 + sum * r / n;  // Taylor: the next term is below 1e-17
  const uint64_t power_bits = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023) << 52;
  double power;
  memcpy(&power, &power_bits, 8);
  return sum * power;
}

// Whether class k ranks before the label's class. Of two equal logits the one with the smaller class ranks first. NaN
// ranks before all others.
OCTET_BOTH bool outranks(float logit, int64_t k, float of_label, int64_t label) {
  return !(logit < of_label || (logit == of_label && k >= label));
}

// ln x for normal positive x; -infinity for 0, NaN for negative numbers.
OCTET_BOTH double natural_log(double x) {
  if (x == 0) return -infinite_double;
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  uint64_t bits;
  memcpy(&bits, &x, 8);
  const uint64_t root_half = 0x3FE6A09E667F3BCDu;  // sqrt(1/2): the mantissa goes into [sqrt(1/2), sqrt(2))
  const int64_t exponent = static_cast<int64_t>(bits - root_half) >> 52;
  bits -= static_cast<uint64_t>(exponent) << 52;
  double mantissa;
  memcpy(&mantissa, &bits, 8);
  const double s = (mantissa - 1) / (mantissa + 1), square = s * s;  // ln m = 2 artanh(s), |s| < 0.172
  double sum = 0;
  for (int n = 10; n >= 0; --n) sum = sum * square + 1.0 / (2 * n + 1);
  return exponent * ln2_high + (2 * s * sum + exponent * ln2_low);
}

// a where the number has a sign, else b; without a branch.
OCTET_BOTH double select_by_sign(double number, double a, double b) {
  uint64_t bits, of_a, of_b;
  memcpy(&bits, &number, 8);
  memcpy(&of_a, &a, 8);
  memcpy(&of_b, &b, 8);
  const uint64_t mask = 0 - (bits >> 63), chosen = (of_a & mask) | (of_b & ~mask);
  double result;
  memcpy(&result, &chosen, 8);
  return result;
}

// e^x for x <= 0, and ln(1 + x) for x in [0, 1]. They have no branches, so that a compiler makes vectors of a loop over
// them. The relative error is below 1e-12. Below -708 the result is that of -708, 3e-308.
OCTET_BOTH double decaying_exponential(double x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52: no bits below the point remain
  const double bounded = select_by_sign(x + 708, -708, x);
  const double shifted = bounded * 1.44269504088896340736 + magic, k = shifted - magic;
  const double r = (bounded - k * ln2_high) - k * ln2_low;  // |r| <= ln 2 / 2
  double sum = 1;
  for (int n = 11; n > 0; --n) sum = 1 + sum * r * (1.0 / n);
  uint64_t bits;
  memcpy(&bits, &shifted, 8);
  bits = (bits + 1023) << 52;  // k is in the lowest bits of `shifted`
  double power;
  memcpy(&power, &bits, 8);
  return sum * power;
}
OCTET_BOTH double log_one_plus(double x) {
  const double s = x / (x + 2), square = s * s;  // 2 artanh(s), s <= 1/3
  double sum = 0;
  for (int n = 11; n >= 0; --n) sum = sum * square + 1.0 / (2 * n + 1);
  return 2 * s * sum;
}

}  // namespace octet
