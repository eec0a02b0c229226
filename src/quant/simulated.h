// What the simulated policies share: a base class, and the arithmetic of their numbers. S(k) = 2^(k-1).
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/encode.h"
#include "src/quant/policy.h"

namespace octet {

class SimulatedPolicy : public Policy {
 public:
  explicit SimulatedPolicy(const Config::Policy& config) : config_(config) {}
  bool quantizes(const Site& site) const override {
    return !(site.first && !config_.quantize_first) && !(site.last && !config_.quantize_last);
  }
  Encoding encoding(Role) const override { return {}; }
  bool needs_clips() const override { return false; }
  bool real_weight_gradient() const override { return false; }
  RealConvolution real_convolution() const override { return RealConvolution::library; }
  bool simulates() const override { return true; }

 protected:
  // Policies of fixed widths refuse others.
  void require_bits(int64_t weight, int64_t activation, int64_t gradient) const {
    const auto& bits = config_.bits;
    REQUIRE_USAGE(
        bits.weight == weight && bits.activation == activation && bits.gradient == gradient,
        say("set policy.bits to {weight: ", weight, ", activation: ", activation, ", gradient: ", gradient, "}"),
        "policy ", name(), " is defined for ", weight, "/", activation, "/", gradient, " bits, not ", bits.weight, "/",
        bits.activation, "/", bits.gradient);
  }
  Config::Policy config_;
};

namespace simulated {

inline float power(int exponent) { return std::ldexp(1.0f, exponent); }
// Q(x, k) = round(x S(k)) / S(k), ties to even.
inline float grid(float x, int bits) { return std::nearbyint(x * power(bits - 1)) / power(bits - 1); }
// C(x, k) = clip(x, -1 + 1 / S(k), 1 - 1 / S(k))
inline float clip(float x, int bits) {
  const float limit = 1 - power(1 - bits);
  return std::clamp(x, -limit, limit);
}
// Shift(x) = 2^round(log2 x); 1 for x = 0, which has no gradient to scale.
inline float shift(float x) { return x > 0 ? power(int(std::nearbyint(std::log2(x)))) : 1.0f; }

template <class F>
void for_each(Tensor tensor, const F& f) {  // f(value&, element)
  float* const values = tensor.f32();
  const int64_t count = tensor.elements();
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) f(values[i], i);
}
inline float absmax(const float* values, int64_t count) {
  float largest = 0;
#pragma omp parallel for reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}
inline float absmax(Tensor tensor) { return absmax(tensor.f32(), tensor.elements()); }
// In (0, 1), of a block of random bits for each element.
inline float uniform(const RngKey& key, int64_t element) {
  const uint32_t word = philox(key.first + uint64_t(element), key.step, key.site, key.seed).word[0];
  return (float(word >> 16) + 0.5f) / 65536.0f;
}

// The affine 8-bit grid of some range: code * step + low, codes 0 to 255.
struct Extremes {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  void take(float x) { low = std::min(low, x), high = std::max(high, x); }
  float step() const { return std::max((high - low) / 255, 1e-8f); }
  // noise: what is added to the code before it is rounded to the nearest.
  float round(float x, float noise = 0) const {
    return std::nearbyint(std::clamp((x - low) / step() + noise, 0.0f, 255.0f)) * step() + low;
  }
};
inline Extremes extremes(const float* values, int64_t count) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
#pragma omp parallel for reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < count; ++i) low = std::min(low, values[i]), high = std::max(high, values[i]);
  return {low, high};
}
inline void round_nearest(Tensor values, Extremes range) {
  for_each(values, [&](float& x, int64_t) { x = range.round(x); });
}

}  // namespace simulated
}  // namespace octet
