// WAGE (Wu et al., "Training and Inference with Integers in Deep Neural Networks", ICLR 2018), on the int8 kernels,
// since its operands are integers times a scale. Follows the authors' code (github.com/boluoweifenda/WAGE). Equations
// of the paper:
//   Q(x, k) = round(x S) / S, S = 2^(k-1)                                                          (4)
//   C(x, k) = clip(x, -1 + 1/S, 1 - 1/S)                                                           (5)
//   Shift(x) = 2^round(log2 x)                                                                     (6)
//   initial weight  uniform in +-max(1.5 / S(kW), sqrt(3 / fan_in)), rounded                       (9)
//   weight      Q(C(w, kW), kW) / alpha, alpha = max(Shift(1.5 / S(kW) / sqrt(3 / fan_in)), 1)     (8), (9)
//   activation  Q(C(a, kA), kA); the gradient is 0 where a is clipped                              (10)
//   gradient    Q(C(e / Shift(max |e|), kE), kE), e: gradient with respect to an activation        (11)
//   update      g = lr g / Shift(max |g|), rounded stochastically to an integer; w = C(w - g / S(kG), kW) (12)-(14)
// The paper drops the scale Shift(max |e|) of (11), since (12) does not depend on it. Here the scale is kept. It is a
// power of two, so no bit of (12) changes. A full-precision layer stores w / alpha and computes with it. There is no
// momentum, no decay and no norm, and biases stay 0. The learning rate is a power of two and begins at 8. The loss is
// cross-entropy, as for every policy here; the authors' code uses the sum of squared errors.
#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class Wage final : public Policy {
 public:
  explicit Wage(const Config::Policy& config)
      : Policy(
            {.name = "wage", .quantizes_last = config.quantize_last, .on_host = true, .rounds_block_gradient = true}),
        config_(config) {
    weight_clip_ = 1 - power(1 - int(config.bits.weight));
    activation_clip_ = 1 - power(1 - int(config.bits.activation));
    REQUIRE_USAGE(!config.quantize_first, "set policy.quantize_first to false",
                  "policy wage: images are normalized, not in [-1, 1], so the first layer's input has no 8-bit form");
  }
  Encoding encoding(Role role) const override {
    Encoding encoding{.dtype = DType::s8, .range = Range::held};
    encoding.held = role == Role::weight ? &weight_clip_ : &activation_clip_;
    encoding.qmax = largest_code(role == Role::weight ? config_.bits.weight : config_.bits.activation);
    // The clip of grad_output depends on each gradient, see round_block_gradient().
    if (role == Role::grad_output) encoding.held = nullptr, encoding.qmax = largest_code(config_.bits.gradient);
    return encoding;
  }

  // (10) and (11). Afterwards the values are code * Shift / S. The value of the largest code is the clip that encodes
  // them exactly.
  float round_block_gradient(const BlockGradient& block, const RngKey&) const override {
    if (block.coded_activation) stop_at_clip(block);
    const Tensor gradient = block.gradient;
    const int bits = int(config_.bits.gradient);
    const float scale = shift(absmax(gradient));
    for_each(gradient, [=](float& g, int64_t) { g = grid(clip(g / scale, bits), bits) * scale; });
    return scale * (1 - power(1 - bits));
  }

  bool initialize(Tensor weight, int64_t fan_in, bool full_precision, const RngKey& key) const override {
    const float limit = std::max(smallest_step(), fan_in_limit(fan_in));
    const float unit = full_precision ? weight_gain(fan_in) : 1;
    for_each(weight, [&](float& w, int64_t i) {
      const float uniform = float(philox(uint64_t(i), key.step, key.layer_id, key.seed).word[0]) / 4294967296.0f;
      w = unit * clip(grid((2 * uniform - 1) * limit, int(config_.bits.weight)), int(config_.bits.weight));
    });
    return true;
  }
  float weight_gain(int64_t fan_in) const override {
    const float alpha = std::max(shift(smallest_step() / fan_in_limit(fan_in)), 1.0f);
    return alpha > 1.8f ? 1 / alpha : 1.0f;
  }

  std::optional<SgdStep> update(const UpdateContext& context, Tensor w, Tensor gradient, Tensor) const override {
    if (!context.weight) return {};
    const float scale = shift(absmax(gradient)), rate = context.sgd.rate();
    const float steps = power(int(config_.bits.gradient) - 1);
    const float* const g = gradient.f32();
    const float unit = context.full_precision ? weight_gain(w.shape.h * w.shape.w * w.shape.c) : 1;
    for_each_random(w, context.key, [=, bits = int(config_.bits.weight)](float& value, int64_t i, float u) {
      const float n = rate * (g[i] / scale);
      const float whole = floor_of(std::abs(n));
      const float count = whole + (std::abs(n) - whole > u ? 1.0f : 0.0f);
      value = unit * clip(value / unit - std::copysign(count, n) / steps, bits);
    });
    return {};
  }

  void check_layer(const std::string& layer, bool norm, int64_t) const override {
    REQUIRE_USAGE(!norm, "use a network without norms: alexnet or vgg7", "policy wage: layer '", layer,
                  "' has a norm, which WAGE does not define");
  }

 private:
  // Sets the gradient to 0 where the activation was clipped. Blocks have neither norm nor shortcut here.
  void stop_at_clip(const BlockGradient& block) const {
    const float* const z = block.convolved.f32();
    for_each(block.gradient, [=, bias = block.bias, channels = block.gradient.shape.c, clip = activation_clip_](
                                 float& g, int64_t i) { g = z[i] + bias[i % channels] > clip ? 0 : g; });
  }
  float smallest_step() const { return 1.5f / power(int(config_.bits.weight) - 1); }
  static float fan_in_limit(int64_t fan_in) { return std::sqrt(3.0f / float(fan_in)); }
  Config::Policy config_;
  float weight_clip_, activation_clip_;
};

}  // namespace

std::unique_ptr<Policy> make_wage(const Config& config) {
  REQUIRE_USAGE(config.train.momentum == 0 && config.train.decay == 0,
                "set train.momentum: 0 and train.decay: 0; its learning rate begins at 8", config.file,
                ": policy wage has an update of its own, without momentum and decay");
  return std::make_unique<Wage>(config.policy);
}

}  // namespace octet
