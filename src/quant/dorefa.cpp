// DoReFa-Net (Zhou et al., arXiv 1606.06160): W/A/G of policy.bits. With q_k(x) = round((2^k - 1) x) / (2^k - 1):
//   weight      2 q_k(tanh(w) / (2 max |tanh w|) + 1/2) - 1                                        equation (9)
//   activation  q_k(clip(a, 0, 1)); the gradient is 0 outside of [0, 1]                            equation (11)
//   grad_output 2 m [q_k(clip(g / (2 m) + 1/2 + N, 0, 1)) - 1/2], m = max |g| of each sample,
//               N uniform in (-1/2, 1/2) / (2^k - 1)                                               equation (12)
// As in the authors' code (tensorpack, examples/DoReFa-Net), the gradient of a weight is also propagated through tanh
// and the maximum. Their full-precision last layer reads activations clipped to [0, 1]; here it reads unclipped ones.
#include <vector>

#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class DoReFa final : public SimulatedPolicy {
 public:
  explicit DoReFa(const Config::Policy& config)
      : SimulatedPolicy({.name = "dorefa"}, {.changes_activation_gradient = true}, config) {
    REQUIRE_USAGE(
        !config.quantize_first, "set policy.quantize_first to false",
        "policy dorefa cannot quantize the first convolution, because it clips the input of a layer to [0, 1]");
  }

  void round(Role role, Tensor values, const RngKey& key) const override {
    if (role == Role::weight) round_weight(values);
    if (role == Role::activation)
      for_each(values,
               [levels = levels(config_.bits.activation)](float& a, int64_t) { a = q(clamp(a, 0, 1), levels); });
    if (role == Role::grad_output) round_gradient(values, key);
  }

  void gradient_through(Role role, Tensor values, Tensor gradient) const override {
    const float* const before = values.f32();
    if (role == Role::activation)
      for_each(gradient, [=](float& g, int64_t i) { g = before[i] >= 0 && before[i] <= 1 ? g : 0; });
    if (role == Role::weight) weight_backward(values, gradient);
  }

 private:
  static float levels(int64_t bits) { return float((1 << bits) - 1); }
  static float q(float x, float levels) { return nearest_integer(x * levels) / levels; }

  void round_weight(Tensor w) const {
    for_each(w, [](float& x, int64_t) { x = std::tanh(x); });
    const float largest = absmax(w);
    if (largest == 0) return;
    for_each(w, [=, levels = levels(config_.bits.weight)](float& x, int64_t) {
      x = 2 * q(x / (2 * largest) + 0.5f, levels) - 1;
    });
  }

  // y = t / M, t = tanh(w), M = max |t| = |t_m|: dL/dt_i = g_i / M; for i = m, sign(t_m) sum(g t) / M^2 is subtracted.
  static void weight_backward(Tensor values, Tensor gradient) {
    const int64_t count = gradient.elements();
    std::vector<float> tanh_w(values.f32(), values.f32() + count);
    float* const t = tanh_w.data();
    for_each({t, values.shape}, [](float& x, int64_t) { x = std::tanh(x); });
    int64_t at = 0;
    double weighted = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (std::abs(t[i]) > std::abs(t[at])) at = i;
      weighted += double(gradient.f32()[i]) * double(t[i]);
    }
    const float largest = std::abs(t[at]);
    if (largest == 0) return;
    const auto of_maximum = float(weighted / (double(largest) * double(largest))) * (t[at] > 0 ? 1.0f : -1.0f);
    for_each(gradient,
             [=](float& g, int64_t i) { g = (g / largest - (i == at ? of_maximum : 0)) * (1 - t[i] * t[i]); });
  }

  void round_gradient(Tensor gradient, const RngKey& key) const {
    const float levels = DoReFa::levels(config_.bits.gradient);
    float* const values = gradient.f32();
    for_runs(gradient.elements(), gradient.elements() / gradient.shape.n, [=](int64_t begin, int64_t end) {
      const float m = absmax(values + begin, end - begin);
      if (m == 0) return;
      each_random(values, begin, end, key, [=](float& g, int64_t, float u) {
        const float noise = (u - 0.5f) / levels;
        g = 2 * m * (q(clamp(g / (2 * m) + 0.5f + noise, 0, 1), levels) - 0.5f);
      });
    });
  }
};

}  // namespace

std::unique_ptr<Policy> make_dorefa(const Config& config) { return std::make_unique<DoReFa>(config.policy); }

}  // namespace octet
