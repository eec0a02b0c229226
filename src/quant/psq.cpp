// The per-sample quantizer of Chen et al., "A Statistical Framework for Low-bitwidth Training of Deep Neural Networks"
// (StatQuant, NeurIPS 2020), simulated, after the authors' code (github.com/cjf00000/StatQuant):
//   any value   s = (max - min) / 255, round((x - min) / s) within 0..255, times s, plus min
//   weight      in the tensor's range, widened to hold 0, which becomes a code
//   activation, and a norm's input: in the tensor's range
//   error       stochastic, twice: in the range of each sample for the data gradient (PSQ), and in that of each feature
//               (channel and pixel) over the batch for the weight gradient
#include <vector>

#include "src/quant/policies.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class PerSample final : public SimulatedPolicy {
 public:
  explicit PerSample(const Config::Policy& config) : SimulatedPolicy(config) { require_bits(8, 8, 8); }
  std::string name() const override { return "psq"; }
  bool splits_error() const override { return true; }

  void round(Role role, Tensor values, const RngKey& key) const override {
    const int64_t samples = values.shape.n, features = values.elements() / samples;
    if (role == Role::weight)
      round_nearest(values, with_zero(extremes(values.f32(), values.elements())));
    else if (role == Role::activation)
      round_nearest(values, extremes(values.f32(), values.elements()));
    else if (role == Role::error)
      round_error(values, key, samples, [&](int64_t i) { return i / features; });
    else if (role == Role::weight_error)
      round_error(values, key, features, [&](int64_t i) { return i % features; });
  }
  // The batch's moments are those of the rounded values.
  void measure_norm(Tensor x, const Moments* measured, float) const override {
    round(Role::activation, x, {});
    if (measured == nullptr) return;
    const int64_t channels = x.shape.c, pixels = x.shape.pixels();
#pragma omp parallel for
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (int64_t i = c; i < x.elements(); i += channels) sum += double(x.f32()[i]);
      const double mean = sum / double(pixels);
      for (int64_t i = c; i < x.elements(); i += channels) squares += std::pow(double(x.f32()[i]) - mean, 2);
      measured->mean[c] = float(mean);
      measured->variance[c] = float(squares / double(pixels));
    }
  }

 private:
  // Moves the upper end so that 0 lies on the grid.
  static Extremes with_zero(Extremes range) {
    const float low = std::min(range.low - 1e-8f, 0.0f), high = std::max(range.high + 1e-8f, 0.0f);
    const float zero = std::floor(-low * 255 / (high - low));
    return zero > 0 ? Extremes{low, (zero - 255) * low / zero} : Extremes{low, high};
  }
  template <class Range>
  static void round_error(Tensor error, const RngKey& key, int64_t ranges, const Range& range_of) {
    std::vector<Extremes> range(static_cast<size_t>(ranges));
    const float* const values = error.f32();
    for (int64_t i = 0; i < error.elements(); ++i) range[size_t(range_of(i))].take(values[i]);
    for_each(error, [&](float& g, int64_t i) { g = range[size_t(range_of(i))].round(g, uniform(key, i) - 0.5f); });
  }
};

}  // namespace

std::unique_ptr<Policy> make_psq(const Config::Policy& config) { return std::make_unique<PerSample>(config); }

}  // namespace octet
