// What the simulated policies share: a base class, and the arithmetic of their numbers. S(k) = 2^(k-1).
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/encode.h"
#include "src/quant/simulation.h"

namespace octet {

class SimulatedPolicy : public Policy, public Simulation {
 public:
  SimulatedPolicy(PolicyTraits traits, const SimulationTraits& simulation, const Config::Policy& config)
      : Policy(complete(std::move(traits), config)), Simulation(simulation), config_(config) {}
  Encoding encoding(Role) const override { return {}; }
  const Simulation* simulation() const override { return this; }

 protected:
  // UsageError: policy.bits differs from the widths for which the policy is defined.
  void require_bits(int64_t weight, int64_t activation, int64_t gradient) const {
    const auto& bits = config_.bits;
    REQUIRE_USAGE(
        bits.weight == weight && bits.activation == activation && bits.gradient == gradient,
        say("set policy.bits to {weight: ", weight, ", activation: ", activation, ", gradient: ", gradient, "}"),
        "policy ", traits().name, " is defined for ", weight, "/", activation, "/", gradient, " bits, not ",
        bits.weight, "/", bits.activation, "/", bits.gradient);
  }
  Config::Policy config_;

 private:
  static PolicyTraits complete(PolicyTraits traits, const Config::Policy& config) {
    traits.quantizes_first = config.quantize_first;
    traits.quantizes_last = config.quantize_last;
    traits.on_host = true;
    if (traits.real_convolution == RealConvolution::fixed_order) traits.real_convolution = RealConvolution::library;
    return traits;
  }
};

namespace simulated {

inline float power(int exponent) { return std::ldexp(1.0f, exponent); }
// Like std::nearbyint (ties to even), std::floor and std::clamp, in a form that compilers vectorize.
inline float nearest_integer(float x) {
  const float whole = (std::abs(x) + 8388608.0f) - 8388608.0f;
  return std::abs(x) < 8388608.0f ? std::copysign(whole, x) : x;
}
inline float floor_of(float x) {
  const float nearest = nearest_integer(x), below = nearest - 1;
  return nearest > x ? below : nearest;
}
inline float clamp(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

// Q(x, k) = round(x S(k)) / S(k), ties to even.
inline float grid(float x, int bits) { return nearest_integer(x * power(bits - 1)) / power(bits - 1); }
// C(x, k) = clip(x, -1 + 1 / S(k), 1 - 1 / S(k))
inline float clip(float x, int bits) {
  const float limit = 1 - power(1 - bits);
  return clamp(x, -limit, limit);
}
// Shift(x) = 2^round(log2 x). For x = 0 it is 1, since there is no gradient to scale.
inline float shift(float x) { return x > 0 ? power(int(std::nearbyint(std::log2(x)))) : 1.0f; }

// Loops over elements. Lambdas should capture by value. Otherwise the compiler must assume that a captured float may
// alias the floats that the loop writes.
template <class F>
void for_runs(int64_t count, int64_t length, F f) {  // calls f(begin, end) on several threads
#pragma omp parallel for firstprivate(f)
  for (int64_t run = 0; run < (count + length - 1) / length; ++run)
    f(run * length, std::min((run + 1) * length, count));
}
inline constexpr int64_t run_length = 4096;

template <class F>
void each(float* values, int64_t begin, int64_t end, F f) {  // f(value&, element)
  for (int64_t i = begin; i < end; ++i) f(values[i], i);
}
template <class F>
void for_each(Tensor tensor, F f) {
  float* const values = tensor.f32();
  for_runs(tensor.elements(), run_length, [=](int64_t begin, int64_t end) { each(values, begin, end, f); });
}

// f(value&, element, uniform). uniform: a random number in (0, 1) for each element, from the bits of random_bits16().
template <class F>
void each_random(float* values, int64_t begin, int64_t end, const RngKey& key, F f) {
  while (begin < end) {
    const uint64_t first = key.first + uint64_t(begin), skip = first % RandomGroup::elements;
    float uniform[RandomGroup::elements];
    for (unsigned l = 0; l < RandomGroup::counters; ++l) {
      const Random128 random = random_of_group(key, first / RandomGroup::elements, l);
      for (unsigned j = 0; j < RandomGroup::per_counter; ++j)
        uniform[element_of_group(j, l)] =
            (float(bits_of_word(random.word[j / RandomGroup::per_word], j)) + 0.5f) / 65536.0f;
    }
    const float* const own = uniform + skip;
    const int64_t count = std::min(end - begin, int64_t(RandomGroup::elements - skip));
    for (int64_t i = 0; i < count; ++i) f(values[begin + i], begin + i, own[i]);
    begin += count;
  }
}
template <class F>
void for_each_random(Tensor tensor, const RngKey& key, F f) {
  float* const values = tensor.f32();
  for_runs(tensor.elements(), run_length, [=](int64_t begin, int64_t end) { each_random(values, begin, end, key, f); });
}

inline float absmax(const float* values, int64_t count) {
  float largest = 0;
#pragma omp parallel for simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}
inline float absmax(Tensor tensor) { return absmax(tensor.f32(), tensor.elements()); }

// An affine 8-bit grid: values are code * step + low, with codes 0 to 255.
struct AffineGrid {
  float low, step;
  // noise: added to the code before it is rounded to nearest.
  float round(float x, float noise = 0) const {
    return nearest_integer(clamp((x - low) / step + noise, 0, 255)) * step + low;
  }
};
struct Extremes {
  float low, high;
  AffineGrid grid(float least_step) const { return {low, std::max((high - low) / 255, least_step)}; }
};
inline Extremes extremes(const float* values, int64_t count) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
#pragma omp parallel for simd reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < count; ++i) low = std::min(low, values[i]), high = std::max(high, values[i]);
  return {low, high};
}
inline void round_nearest(Tensor values, AffineGrid grid) {
  for_each(values, [=](float& x, int64_t) { x = grid.round(x); });
}

}  // namespace simulated
}  // namespace octet
