// The paper's policy: symmetric uniform int8 weights, activations and gradients (equation 1). Rounding is to nearest in
// the forward pass and stochastic for gradients (equation 3). The ClipCoordinator provides the clips of gradients. By
// default the first convolution and the last fully connected layer stay in full precision.
#include "src/quant/policy.h"

namespace octet {
namespace {

class UnifiedInt8 final : public Policy {
 public:
  explicit UnifiedInt8(const Config::Policy& config)
      : Policy({.name = "unified_int8",
                .quantizes_first = config.quantize_first,
                .quantizes_last = config.quantize_last,
                .needs_clips = config.clip.enabled || config.lr_scale.enabled || config.clip.record_histograms,
                .holds_ranges = config.activation_range == "held"}),
        config_(config) {}

  Encoding encoding(Role role) const override {
    Encoding encoding{.dtype = DType::s8};
    switch (role) {
      case Role::weight:
        encoding.qmax = largest_code(config_.bits.weight);
        // With the largest magnitude as range most weights would be rounded to 0. In 2 bits these are all below half of
        // it.
        if (config_.bits.weight < 8) encoding.range = Range::held;
        break;
      case Role::positive_activation:
        encoding.qmax = largest_code(config_.bits.activation);
        if (traits().holds_ranges) encoding.range = Range::held;
        // Signed codes would waste half of the range, since no value is negative.
        if (config_.unsigned_activations) encoding.dtype = DType::u8, encoding.qmax = 2 * encoding.qmax + 1;
        break;
      case Role::activation:
      case Role::norm_input:
        encoding.qmax = largest_code(config_.bits.activation);
        if (traits().holds_ranges) encoding.range = Range::held;
        break;
      case Role::grad_output:
      case Role::grad_block:
      case Role::grad_output_for_weight:
      case Role::exchange:
        encoding.qmax = largest_code(config_.bits.gradient);
        encoding.rounding = Rounding::stochastic;
        encoding.range = config_.clip.enabled ? Range::held : Range::absmax;
        break;
    }
    return encoding;
  }

 private:
  Config::Policy config_;
};

}  // namespace

std::unique_ptr<Policy> make_unified_int8(const Config& config) { return std::make_unique<UnifiedInt8>(config.policy); }

}  // namespace octet
