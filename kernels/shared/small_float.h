// Rounding to floating-point numbers of fewer bits: (sign, exponent, mantissa) as in "Training Deep Neural Networks
// with 8-bit Floating Point Numbers" (Wang et al., NeurIPS 2018). The exponent is biased as in IEEE 754, the smallest
// numbers are subnormal, and values that are too large become the largest number.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/shared/encode.h"

namespace octet {

template <int exponent_bits, int mantissa_bits>
struct SmallFloat {
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int least = 1 - bias;  // exponent of the smallest normal number
  static constexpr int dropped = 23 - mantissa_bits;
  // The largest exponent is reserved for infinity.
  static constexpr float largest = [] {
    float value = 2 - 1.0f / float(1 << mantissa_bits);
    for (int i = 0; i < bias; ++i) value *= 2;
    return value;
  }();

  // Drops the bits below the mantissa. offset: is added to the bits before.
  static float cut(float x, uint32_t offset) {
    const uint32_t bits = (bits_of(x) & 0x7FFFFFFFu) + offset;
    return float_of((bits & ~((1u << dropped) - 1)) | (bits_of(x) & 0x80000000u));
  }
  static float saturate(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

  // Rounds to nearest, ties to even.
  static float nearest(float x) {
    // Adding and subtracting 1.5 * 2^23 times the step between subnormals leaves a multiple of that step.
    const float step = float_of(uint32_t(127 + least - mantissa_bits + 23) << 23) * 1.5f;
    const float small = (x + step) - step;
    const uint32_t odd = (bits_of(x) >> dropped) & 1u;
    const float normal = cut(x, (1u << (dropped - 1)) - 1 + odd);
    const float smallest_normal = float_of(uint32_t(127 + least) << 23);
    const float magnitude = x < 0 ? -x : x;
    return saturate(magnitude < smallest_normal ? small : normal, largest);
  }
  // Rounds up with a probability equal to the dropped fraction. uniform: in [0, 1).
  static float stochastic(float x, float uniform) {
    // The step between neighbours of x and the inverse of the step are powers of two, so only the sum is rounded.
    const uint32_t exponent = std::max((bits_of(x) >> 23) & 0xFFu, uint32_t(127 + least)) - mantissa_bits;
    const float sum = x * float_of((254 - exponent) << 23) + uniform, nearest = round_nearest(sum);
    const float below = nearest - (nearest > sum ? 1.0f : 0.0f);
    return saturate(below * float_of(exponent << 23), largest);
  }
};
using Float8 = SmallFloat<5, 2>;
using Float16 = SmallFloat<6, 9>;

}  // namespace octet
