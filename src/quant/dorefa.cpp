// DoReFa-Net (Zhou et al., arXiv 1606.06160): W/A/G of policy.bits. With q_k(x) = round((2^k - 1) x) / (2^k - 1):
//   weight      2 q_k(tanh(w) / (2 max |tanh w|) + 1/2) - 1                                        equation (9)
//   activation  q_k(clip(a, 0, 1)), whose clip stops the gradient outside of [0, 1]                equation (11)
//   error       2 m [q_k(clip(g / (2 m) + 1/2 + N, 0, 1)) - 1/2], m = max |g| of each sample,
//               N uniform in (-1/2, 1/2) / (2^k - 1)                                               equation (12)
// As in the authors' code (tensorpack, examples/DoReFa-Net), the gradient of a weight passes tanh and the maximum too.
#include <vector>

#include "src/quant/policies.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class DoReFa final : public SimulatedPolicy {
 public:
  using SimulatedPolicy::SimulatedPolicy;
  std::string name() const override { return "dorefa"; }

  void round(Role role, Tensor values, const RngKey& key) const override {
    if (role == Role::weight) round_weight(values);
    if (role == Role::activation)
      for_each(values, [&](float& a, int64_t) { a = q(std::clamp(a, 0.0f, 1.0f), config_.bits.activation); });
    if (role == Role::error) round_error(values, key);
  }

  bool changes_backward(Role role) const override { return role == Role::weight || role == Role::activation; }
  void backward(Role role, Tensor values, Tensor gradient) const override {
    const float* const before = values.f32();
    if (role == Role::activation)
      for_each(gradient, [&](float& g, int64_t i) { g = before[i] >= 0 && before[i] <= 1 ? g : 0; });
    if (role == Role::weight) weight_backward(values, gradient);
  }

 private:
  static float q(float x, int64_t bits) {
    const float levels = float((1 << bits) - 1);
    return std::nearbyint(x * levels) / levels;
  }

  void round_weight(Tensor w) const {
    for_each(w, [](float& x, int64_t) { x = std::tanh(x); });
    const float largest = absmax(w);
    if (largest == 0) return;
    for_each(w, [&](float& x, int64_t) { x = 2 * q(x / (2 * largest) + 0.5f, config_.bits.weight) - 1; });
  }

  // y = t / M, t = tanh(w), M = max |t| = |t_m|: dL/dt_i = g_i / M, and for i = m less sign(t_m) sum(g t) / M^2.
  static void weight_backward(Tensor values, Tensor gradient) {
    const float* const w = values.f32();
    const int64_t count = gradient.elements();
    int64_t at = 0;
    double weighted = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (std::abs(w[i]) > std::abs(w[at])) at = i;
      weighted += double(gradient.f32()[i]) * std::tanh(double(w[i]));
    }
    const float top = std::tanh(w[at]), largest = std::abs(top);
    if (largest == 0) return;
    const auto of_maximum = float(weighted / (double(largest) * double(largest))) * (top > 0 ? 1.0f : -1.0f);
    for_each(gradient, [&](float& g, int64_t i) {
      const float t = std::tanh(w[i]);
      g = (g / largest - (i == at ? of_maximum : 0)) * (1 - t * t);
    });
  }

  void round_error(Tensor error, const RngKey& key) const {
    const int64_t per_sample = error.elements() / error.shape.n, bits = config_.bits.gradient;
    const float levels = float((1 << bits) - 1);
    std::vector<float> largest(size_t(error.shape.n));
    for (int64_t n = 0; n < error.shape.n; ++n) largest[size_t(n)] = absmax(error.f32() + n * per_sample, per_sample);
    for_each(error, [&](float& g, int64_t i) {
      const float m = largest[size_t(i / per_sample)];
      if (m == 0) return;
      const float noise = (uniform(key, i) - 0.5f) / levels;
      g = 2 * m * (q(std::clamp(g / (2 * m) + 0.5f + noise, 0.0f, 1.0f), bits) - 0.5f);
    });
  }
};

}  // namespace

std::unique_ptr<Policy> make_dorefa(const Config::Policy& config) { return std::make_unique<DoReFa>(config); }

}  // namespace octet
