// The paper's policy: symmetric uniform int8 weights, activations and errors (equation 1); nearest rounding forward,
// stochastic rounding of errors (equation 3); errors clipped where the ClipCoordinator holds them. The first
// convolution and the last fully connected layer stay real unless asked otherwise.
#include "src/quant/policies.h"

namespace octet {
namespace {

class UnifiedInt8 final : public Policy {
 public:
  explicit UnifiedInt8(const Config::Policy& config) : config_(config) {}
  std::string name() const override { return "unified_int8"; }

  bool quantizes(const Site& site) const override {
    return !(site.first && !config_.quantize_first) && !(site.last && !config_.quantize_last);
  }

  Encoding encoding(Role role) const override {
    Encoding encoding;
    encoding.dtype = DType::s8;
    switch (role) {
      case Role::weight:
        encoding.qmax = qmax(config_.bits.weight);
        encoding.per_channel = config_.per_channel_weights;
        // In the range of the largest, most weights would be 0: those below half of it in 2 bits.
        if (config_.bits.weight < 8) encoding.range = Range::held;
        break;
      case Role::activation:
        encoding.qmax = qmax(config_.bits.activation);
        break;
      case Role::error:
      case Role::value_error:
      case Role::weight_error:
      case Role::exchange:
        encoding.qmax = qmax(config_.bits.gradient);
        encoding.rounding = Rounding::stochastic;
        encoding.range = config_.clip.enabled ? Range::held : Range::absmax;
        break;
    }
    return encoding;
  }

  // Half of the signed codes would never be used. The paper does not tell behind what its activations are rounded.
  Encoding positive_activation() const override {
    Encoding positive = encoding(Role::activation);
    if (config_.unsigned_activations) positive.dtype = DType::u8, positive.qmax = 2 * positive.qmax + 1;
    return positive;
  }

  bool needs_clips() const override {
    return config_.clip.enabled || config_.lr_scale.enabled || config_.clip.record_histograms;
  }
  bool real_weight_gradient() const override { return false; }
  RealConvolution real_convolution() const override { return RealConvolution::fixed_order; }

 private:
  static int qmax(int64_t bits) { return (1 << (bits - 1)) - 1; }
  Config::Policy config_;
};

}  // namespace

std::unique_ptr<Policy> make_unified_int8(const Config::Policy& config) {
  return std::make_unique<UnifiedInt8>(config);
}

}  // namespace octet
