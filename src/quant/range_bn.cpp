// Range Batch-Norm and the bifurcated gradients of Banner et al., "Scalable methods for 8-bit training of neural
// networks" (NeurIPS 2018), simulated, after the authors' code (github.com/eladhoffer/quantized.pytorch):
//   any value   s = (max - min) / 255, round((x - min) / s) within 0..255, times s, plus min
//               weights and gradients: of the tensor; activations: means over the samples of max and min
//   activation  stochastic, since the code's QuantMeasure passes the number of chunks, 16, as `stochastic`. With
//               rounding to nearest, a channel whose values all lie within one step would be rounded to one value and
//               have a range of 0.
//   grad_output stochastic, for the data gradient; the weight gradient reads it unrounded
//               (section 5, "bifurcation")
//   norm        (x - mean) / (C(n) (max - min)), where max and min are means over 16 chunks of n pixels each;
//               C(n) = 0.35 / 2 (1 + sqrt(pi ln 4)) / sqrt(2 ln n); the scale, gamma and beta in 8 bits (section 3)
// The gradient of a norm's output is rounded where it enters the block, before the ReLU's backward. A shortcut that
// ends there receives it unrounded. For evaluation the authors' code keeps running averages of 1 / (C(n) (max - min)),
// with weight 0.9 for a new batch, and of the ranges of activations. Here the running average is of the square of C(n)
// (max - min), with the same weight, and ranges of activations are those of the batch. The authors also quantize the
// first and the last layer; here policy.quantize_first and policy.quantize_last decide.
#include <numbers>
#include <vector>

#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

constexpr int64_t chunks = 16;
constexpr float least_step = 1e-8f;

float range_constant(int64_t pixels) {
  const double n = double(pixels) / double(chunks);
  return float(0.5 * 0.35 * (1 + std::sqrt(std::numbers::pi * std::log(4.0))) / std::sqrt(2 * std::log(n)));
}

class RangeBn final : public SimulatedPolicy {
 public:
  explicit RangeBn(const Config::Policy& config)
      : SimulatedPolicy({.name = "range_bn"},
                        {.unrounded_weight_gradient = true,
                         .rounds_grad_block_of_norm = true,
                         .unrounded_shortcut = true,
                         .own_norm = true,
                         .norm_momentum = 0.9f},
                        config) {
    require_bits(8, 8, 8);
  }

  void round(Role role, Tensor values, const RngKey& key) const override {
    const int64_t samples = values.shape.n, per_sample = values.elements() / samples;
    if (role == Role::activation) {
      double low = 0, high = 0;
      for (int64_t n = 0; n < samples; ++n) {
        const Extremes own = extremes(values.f32() + n * per_sample, per_sample);
        low += own.low, high += own.high;
      }
      const Extremes means{float(low / double(samples)), float(high / double(samples))};
      round_stochastic(values, means.grid(least_step), key);
      return;
    }
    const AffineGrid grid = extremes(values.f32(), values.elements()).grid(least_step);
    if (role == Role::weight)
      round_nearest(values, grid);
    else
      round_stochastic(values, grid, key);
  }

  // The norm node divides by sqrt(variance + epsilon). The variance is set so that this equals C(n) (max - min) +
  // epsilon.
  void measure_norm(Tensor x, const Moments* measured, float epsilon, const RngKey& key) const override {
    round(Role::activation, x, key);
    if (measured == nullptr) return;
    const Moments& moments = *measured;
    const int64_t channels = x.shape.c, pixels = x.shape.pixels();
    const Places places = find(x);
    const float* const values = x.f32();
    for_runs(channels, 16, [&](int64_t begin, int64_t end) {
      std::vector<double> sums(size_t(end - begin));
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = begin; c < end; ++c) sums[size_t(c - begin)] += double(values[p * channels + c]);
      for (int64_t c = begin; c < end; ++c) {
        double range = 0;
        for (int64_t at = c; at < chunks * channels; at += channels)
          range += double(values[places.highest[size_t(at)]]) - double(values[places.lowest[size_t(at)]]);
        const double deviation = range / double(chunks) * double(range_constant(pixels)) + double(epsilon);
        moments.mean[c] = float(sums[size_t(c - begin)] / double(pixels));
        moments.variance[c] = float(deviation * deviation - double(epsilon));
      }
    });
  }
  void round_norm(const NormOperands& norm) const override {
    const Shape row{1, 1, 1, norm.x.shape.c};
    std::vector<float> scales(size_t(row.c));
    // A deviation is at least epsilon. The running average may fall below by rounding, so the limit is applied again.
    for (int64_t c = 0; c < row.c; ++c)
      scales[size_t(c)] = 1 / std::sqrt(std::max(norm.variance[c] + norm.epsilon, norm.epsilon * norm.epsilon));
    for (float* values : {scales.data(), norm.gamma, norm.beta})
      round_nearest({values, row}, extremes(values, row.c).grid(least_step));
    for (int64_t c = 0; c < row.c; ++c) norm.variance[c] = 1 / (scales[size_t(c)] * scales[size_t(c)]) - norm.epsilon;
  }

  // With r = 1 / (C (max - min) + epsilon) and x^ = (x - mean) r:
  // dL/dx = gamma r (dz - mean(dz)). At each chunk's largest and smallest x a second term is added, - and + gamma
  // d_gamma C r / 16.
  void norm_backward(const NormOperands& norm, const float* d_gamma, const float* d_beta, Tensor d_x) const override {
    const int64_t channels = norm.x.shape.c, pixels = norm.x.shape.pixels();
    std::vector<float> means(static_cast<size_t>(channels)), scales(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      scales[size_t(c)] = 1 / std::sqrt(norm.variance[c] + norm.epsilon);
      means[size_t(c)] = norm.gamma[c] * scales[size_t(c)] * d_beta[c] / float(pixels);
    }
    float* const gradient = d_x.f32();
    for_runs(d_x.elements(), channels, [=, mean = means.data()](int64_t begin, int64_t end) {
      each(gradient, begin, end, [=](float& g, int64_t i) { g -= mean[i - begin]; });
    });
    const Places places = find(norm.x);
    const float constant = range_constant(pixels) / float(chunks);
    for (int64_t at = 0; at < chunks * channels; ++at) {
      const int64_t c = at % channels;
      const float share = norm.gamma[c] * d_gamma[c] * constant * scales[size_t(c)];
      gradient[places.highest[size_t(at)]] -= share;
      gradient[places.lowest[size_t(at)]] += share;
    }
  }

  void check_layer(const std::string& layer, bool norm, int64_t pixels) const override {
    REQUIRE_USAGE(!norm || (pixels % chunks == 0 && pixels > chunks),
                  say("set data.batch to a multiple of ", chunks, " for each rank, and to ", 2 * chunks, " at least"),
                  "policy range_bn: the norm of layer '", layer, "' sees ", pixels,
                  " pixels, which do not divide into ", chunks, " chunks");
  }

 private:
  static void round_stochastic(Tensor values, AffineGrid grid, const RngKey& key) {
    for_each_random(values, key, [=](float& x, int64_t, float u) { x = grid.round(x, u - 0.5f); });
  }

  // The positions of the smallest and largest x of each chunk and channel, as elements of x. Index: (chunk, channel).
  // Of equal values the first one is taken.
  struct Places {
    std::vector<int64_t> lowest, highest;
  };
  static Places find(Tensor x) {
    const int64_t channels = x.shape.c, size = x.shape.pixels() / chunks;
    const float* const values = x.f32();
    Places places{std::vector<int64_t>(size_t(chunks * channels)), std::vector<int64_t>(size_t(chunks * channels))};
    for_runs(chunks, 1, [&, values](int64_t chunk, int64_t) {
      const float* const from = values + chunk * size * channels;
      std::vector<float> lows(from, from + channels), highs = lows;
      std::vector<int32_t> lowest(static_cast<size_t>(channels)), highest(static_cast<size_t>(channels));
      float *const low = lows.data(), *const high = highs.data();
      int32_t *const low_at = lowest.data(), *const high_at = highest.data();
      for (int32_t p = 1; p < size; ++p)
        for (int64_t c = 0; c < channels; ++c) {
          const float value = from[p * channels + c];
          low_at[c] = value < low[c] ? p : low_at[c];
          low[c] = value < low[c] ? value : low[c];
          high_at[c] = value > high[c] ? p : high_at[c];
          high[c] = value > high[c] ? value : high[c];
        }
      for (int64_t c = 0; c < channels; ++c) {
        places.lowest[size_t(chunk * channels + c)] = (chunk * size + low_at[c]) * channels + c;
        places.highest[size_t(chunk * channels + c)] = (chunk * size + high_at[c]) * channels + c;
      }
    });
    return places;
  }
};

}  // namespace

std::unique_ptr<Policy> make_range_bn(const Config& config) { return std::make_unique<RangeBn>(config.policy); }

}  // namespace octet
