// The per-sample quantizer of Chen et al., "A Statistical Framework for Low-bitwidth Training of Deep Neural Networks"
// (StatQuant, NeurIPS 2020), simulated, after the authors' code (github.com/cjf00000/StatQuant):
//   any value   s = (max - min) / 255, round((x - min) / s) within 0..255, times s, plus min, where the range of
//               the values is widened by 1e-8 at both ends
//   weight      in the tensor's range, widened to hold 0, which becomes a code
//   activation  in the tensor's range
//   grad_output stochastic, twice: in the range of each sample for the data gradient (PSQ), and in that of each feature
//               (channel and pixel) over the batch for the weight gradient
// The authors also quantize the first and the last layer; here policy.quantize_first and policy.quantize_last decide.
// Their norms compute a rounded copy of the input but read the unrounded input.
#include <vector>

#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class PerSample final : public SimulatedPolicy {
 public:
  explicit PerSample(const Config::Policy& config)
      : SimulatedPolicy({.name = "psq"}, {.splits_grad_output = true}, config) {
    require_bits(8, 8, 8);
  }

  void round(Role role, Tensor values, const RngKey& key) const override {
    if (role == Role::weight)
      round_nearest(values, with_zero(widened(extremes(values.f32(), values.elements()))).grid(least_step));
    else if (role == Role::activation)
      round_nearest(values, widened(extremes(values.f32(), values.elements())).grid(least_step));
    else if (role == Role::grad_output)
      round_by_sample(values, key);
    else if (role == Role::grad_output_for_weight)
      round_by_feature(values, key);
  }

 private:
  static constexpr float least_step = std::numeric_limits<float>::min();  // if all values are equal, they have code 0
  static Extremes widened(Extremes range) { return {range.low - 1e-8f, range.high + 1e-8f}; }
  // Widens the range to include 0 and moves its upper end so that 0 lies on the grid.
  static Extremes with_zero(Extremes range) {
    const float low = std::min(range.low, 0.0f), high = std::max(range.high, 0.0f);
    const float zero = std::floor(-low * 255 / (high - low));
    return zero > 0 ? Extremes{low, (zero - 255) * low / zero} : Extremes{low, high};
  }
  static void round_by_sample(Tensor gradient, const RngKey& key) {
    const int64_t features = gradient.elements() / gradient.shape.n;
    float* const values = gradient.f32();
    for_runs(gradient.elements(), features, [=](int64_t begin, int64_t end) {
      const AffineGrid grid = widened(extremes(values + begin, end - begin)).grid(least_step);
      each_random(values, begin, end, key, [=](float& g, int64_t, float u) { g = grid.round(g, u - 0.5f); });
    });
  }
  static void round_by_feature(Tensor gradient, const RngKey& key) {
    const int64_t samples = gradient.shape.n, features = gradient.elements() / samples;
    float* const values = gradient.f32();
    for_runs(features, run_length, [=](int64_t begin, int64_t end) {
      std::vector<float> lows(values + begin, values + end), highs = lows, steps(lows.size());
      float *const low = lows.data(), *const high = highs.data(), *const step = steps.data();
      for (int64_t n = 1; n < samples; ++n)
        for (int64_t i = 0; i < end - begin; ++i) {
          const float x = values[n * features + begin + i];
          low[i] = x < low[i] ? x : low[i];
          high[i] = x > high[i] ? x : high[i];
        }
      for (int64_t i = 0; i < end - begin; ++i) {
        const AffineGrid grid = widened({low[i], high[i]}).grid(least_step);
        low[i] = grid.low, step[i] = grid.step;
      }
      for (int64_t first = begin; first < samples * features; first += features)
        each_random(values, first, first + end - begin, key, [=](float& g, int64_t i, float u) {
          g = AffineGrid{low[i - first], step[i - first]}.round(g, u - 0.5f);
        });
    });
  }
};

}  // namespace

std::unique_ptr<Policy> make_psq(const Config& config) { return std::make_unique<PerSample>(config.policy); }

}  // namespace octet
