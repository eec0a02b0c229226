// Where an activation passes gradients, as an interval of the norm's input: two comparisons instead of the norm.
#pragma once
#include <algorithm>
#include <limits>

#include "kernels/shared/affine.h"
#include "kernels/shared/encode.h"

namespace octet::cpu {

struct Interval {  // open
  float low, high;
};

// Floats in their order, infinities included.
inline int64_t rank_of(float x) {
  const int64_t magnitude = bits_of(x) & 0x7FFFFFFFu;
  return bits_of(x) >> 31 != 0 ? -magnitude : magnitude;
}
inline float float_at(int64_t rank) {
  return float_of(rank < 0 ? 0x80000000u | static_cast<uint32_t>(-rank) : static_cast<uint32_t>(rank));
}

// The rank of the first float at which holds(), which is false and then true; that of infinity if it holds nowhere.
template <class Holds>
int64_t first_where(float guess, const Holds& holds) {
  constexpr int64_t last = 0x7F800000;
  const auto at = [&](int64_t rank) { return rank >= last || (rank > -last && holds(float_at(rank))); };
  int64_t high = guess == guess ? rank_of(guess) : 0, low = high - 1;
  for (int64_t step = 1; !at(high); step *= 2) low = high, high += step;
  for (int64_t step = 1; at(low); step *= 2) high = low, low -= step;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (at(middle) ? high : low) = middle;
  }
  return std::min(high, last);
}

// The inputs x for which low < a x + b < high in float arithmetic. Rounding is monotone, so they are an interval.
inline Interval inputs_between(AffineCoefficients affine, float low, float high) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float a = affine.a, b = affine.b;
  if (a < 0) {
    const Interval mirrored = inputs_between({-a, b}, low, high);
    return {-mirrored.high, -mirrored.low};
  }
  if (!(a > 0)) return a == 0 && low < b && b < high ? Interval{-infinity, infinity} : Interval{infinity, -infinity};
  const int64_t first = first_where((low - b) / a, [=](float x) { return a * x + b > low; });
  if (high == infinity) return {float_at(first - 1), infinity};
  return {float_at(first - 1), float_at(first_where((high - b) / a, [=](float x) { return a * x + b >= high; }))};
}

}  // namespace octet::cpu
