// "Training Deep Neural Networks with 8-bit Floating Point Numbers" (Wang et al., NeurIPS 2018), simulated. Numbers are
// (sign, exponent, mantissa bits):
//   operands    weights, activations and gradients in FP8 (1, 5, 2), to nearest (section 3)
//   sums        in FP16 (1, 6, 9), in chunks of 64: kernels/cpu/conv_chunked.cpp (section 2.3, figure 3)
//   loss        times 1000 (section 3)
//   update      three AXPYs in FP16, rounded stochastically: g = g + decay w, v = momentum v + g, w = w - lr v
//               (section 2.4)
// The first and the last layer stay in full precision, as in the other policies here. The paper uses FP16 for the
// images and the last layer.
#include "kernels/shared/small_float.h"
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class Fp8 final : public SimulatedPolicy {
 public:
  explicit Fp8(const Config::Policy& config)
      : SimulatedPolicy({.name = "fp8", .real_convolution = RealConvolution::chunked_float16, .loss_scale = 1000}, {},
                        config) {
    require_bits(8, 8, 8);
  }
  void round(Role, Tensor values, const RngKey&) const override {
    for_each(values, [](float& x, int64_t) { x = Float8::nearest(x); });
  }
  std::optional<SgdStep> update(const UpdateContext& context, Tensor w, Tensor gradient,
                                Tensor velocity) const override {
    const SgdProblem sgd = context.sgd;
    const RngKey key = context.key;
    const float scale = traits().loss_scale;
    const float* const g = gradient.f32();
    float* const v = velocity.f32();
    // One block of random bits gives three independent draws for each element.
    for_each(w, [=](float& value, int64_t i) {
      const Random128 random = philox(uint64_t(i), key.step, key.layer_id, key.seed);
      const auto draw = [&](int k) { return float(random.word[k] >> 8) / 16777216.0f; };
      const float step = Float16::stochastic(g[i] / scale + sgd.decay * value, draw(0));
      v[i] = Float16::stochastic(sgd.momentum * v[i] + step, draw(1));
      value = Float16::stochastic(value - sgd.rate() * v[i], draw(2));
    });
    return {};
  }
};

}  // namespace

std::unique_ptr<Policy> make_fp8(const Config& config) { return std::make_unique<Fp8>(config.policy); }

}  // namespace octet
