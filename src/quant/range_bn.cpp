// Range Batch-Norm and the bifurcated gradients of Banner et al., "Scalable methods for 8-bit training of neural
// networks" (NeurIPS 2018), simulated, after the authors' code (github.com/eladhoffer/quantized.pytorch):
//   any value   s = (max - min) / 255, round((x - min) / s) within 0..255, times s, plus min
//               weights and errors: of the tensor; activations: max and min are means over the samples' own
//   error       stochastic; only the data gradient reads it, the weight gradient reads the error before (section 5,
//   "bifurcation") norm        (x - mean) / (C(n) (max - min)), where max and min are means over 16 chunks of a
//   channel, n pixels each;
//               C(n) = 0.35 / 2 (1 + sqrt(pi ln 4)) / sqrt(2 ln n); the scale, gamma and beta in 8 bits         section
//               3
// The gradient of a norm's output is rounded where it enters the block, before the ReLU's backward.
#include <numbers>
#include <vector>

#include "src/quant/policies.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

constexpr int64_t chunks = 16;

float range_constant(int64_t pixels) {
  const double n = double(pixels) / double(chunks);
  return float(0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) / std::sqrt(2 * std::log(n)));
}

class RangeBn final : public SimulatedPolicy {
 public:
  explicit RangeBn(const Config::Policy& config) : SimulatedPolicy(config) { require_bits(8, 8, 8); }
  std::string name() const override { return "range_bn"; }
  bool real_weight_gradient() const override { return true; }

  void round(Role role, Tensor values, const RngKey& key) const override {
    const int64_t samples = values.shape.n, per_sample = values.elements() / samples;
    if (role == Role::activation) {
      double low = 0, high = 0;
      for (int64_t n = 0; n < samples; ++n) {
        const Extremes own = extremes(values.f32() + n * per_sample, per_sample);
        low += own.low, high += own.high;
      }
      round_nearest(values, {float(low / double(samples)), float(high / double(samples))});
      return;
    }
    const Extremes range = extremes(values.f32(), values.elements());
    if (role == Role::weight)
      round_nearest(values, range);
    else
      for_each(values, [&](float& x, int64_t i) { x = range.round(x, uniform(key, i) - 0.5f); });
  }
  bool rounds_value_error() const override { return true; }
  float round_value_error(Tensor error, const RngKey& key) const override {
    round(Role::error, error, key);
    return 0;
  }

  // The norm divides by sqrt(variance + epsilon), here the range's C(n) (max - min) + epsilon.
  void measure_norm(Tensor x, const Moments* measured, float epsilon) const override {
    round(Role::activation, x, {});
    if (measured == nullptr) return;
    const Moments& moments = *measured;
    const int64_t channels = x.shape.c, pixels = x.shape.pixels();
    const std::vector<Places> places = find(x);
#pragma omp parallel for
    for (int64_t c = 0; c < channels; ++c) {
      double range = 0, sum = 0;
      for (const Place& place : places[size_t(c)])
        range += double(x.f32()[place.highest * channels + c]) - double(x.f32()[place.lowest * channels + c]);
      for (int64_t p = 0; p < pixels; ++p) sum += double(x.f32()[p * channels + c]);
      const double deviation = range / double(chunks) * double(range_constant(pixels)) + double(epsilon);
      moments.mean[c] = float(sum / double(pixels));
      moments.variance[c] = float(deviation * deviation - double(epsilon));
    }
  }
  void round_norm(const NormOperands& norm) const override {
    const Shape row{1, 1, 1, norm.x.shape.c};
    std::vector<float> scales(size_t(row.c));
    for (int64_t c = 0; c < row.c; ++c) scales[size_t(c)] = 1 / std::sqrt(norm.variance[c] + norm.epsilon);
    for (float* values : {scales.data(), norm.gamma, norm.beta}) round_nearest({values, row}, extremes(values, row.c));
    for (int64_t c = 0; c < row.c; ++c) norm.variance[c] = 1 / (scales[size_t(c)] * scales[size_t(c)]) - norm.epsilon;
  }

  // With r = 1 / (C (max - min) + epsilon), x^ = (x - mean) r:
  // dL/dx = gamma r (dz - mean(dz)), and dL/dr dr/d(max) / 16 = -+ gamma d_gamma C r / 16 at each chunk's largest and
  // smallest x.
  bool frozen_statistics() const override { return true; }
  void norm_backward(const NormOperands& norm, const float* d_gamma, const float* d_beta, Tensor d_x) const override {
    const int64_t channels = norm.x.shape.c, pixels = norm.x.shape.pixels();
    std::vector<float> means(static_cast<size_t>(channels)), scales(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      scales[size_t(c)] = 1 / std::sqrt(norm.variance[c] + norm.epsilon);
      means[size_t(c)] = norm.gamma[c] * scales[size_t(c)] * d_beta[c] / float(pixels);
    }
    for_each(d_x, [&](float& g, int64_t i) { g -= means[size_t(i % channels)]; });
    const std::vector<Places> places = find(norm.x);
    const float constant = range_constant(pixels) / float(chunks);
    for (int64_t c = 0; c < channels; ++c) {
      const float share = norm.gamma[c] * d_gamma[c] * constant * scales[size_t(c)];
      for (const Place& place : places[size_t(c)]) {
        d_x.f32()[place.highest * channels + c] -= share;
        d_x.f32()[place.lowest * channels + c] += share;
      }
    }
  }

  void check_layer(const std::string& layer, bool norm, int64_t pixels) const override {
    REQUIRE_USAGE(!norm || (pixels % chunks == 0 && pixels > chunks), "choose another data.batch or image size",
                  "policy range_bn: the norm of layer '", layer, "' sees ", pixels,
                  " pixels, which do not divide into ", chunks, " chunks");
  }

 private:
  struct Place {
    int64_t lowest = 0, highest = 0;  // pixels
  };
  using Places = std::vector<Place>;  // one for each chunk

  // By channel; the first of equal values counts.
  static std::vector<Places> find(Tensor x) {
    const int64_t channels = x.shape.c, size = x.shape.pixels() / chunks;
    std::vector<Places> all(static_cast<size_t>(channels), Places(chunks));
#pragma omp parallel for
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t c = 0; c < channels; ++c) all[size_t(c)][size_t(chunk)] = {chunk * size, chunk * size};
      for (int64_t p = chunk * size; p < (chunk + 1) * size; ++p) {
        for (int64_t c = 0; c < channels; ++c) {
          Place& place = all[size_t(c)][size_t(chunk)];
          const float value = x.f32()[p * channels + c];
          if (value < x.f32()[place.lowest * channels + c]) place.lowest = p;
          if (value > x.f32()[place.highest * channels + c]) place.highest = p;
        }
      }
    }
    return all;
  }
};

}  // namespace

std::unique_ptr<Policy> make_range_bn(const Config::Policy& config) { return std::make_unique<RangeBn>(config); }

}  // namespace octet
