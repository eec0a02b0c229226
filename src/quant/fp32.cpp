// Nothing is quantized: the baseline, on the convolutions of oneDNN or cuDNN.
#include "src/quant/policies.h"

namespace octet {
namespace {

class Fp32 final : public Policy {
 public:
  std::string name() const override { return "fp32"; }
  bool quantizes(const Site&) const override { return false; }
  Encoding encoding(Role) const override { return {}; }
  bool needs_clips() const override { return false; }
  bool real_weight_gradient() const override { return false; }
  RealConvolution real_convolution() const override { return RealConvolution::library; }
};

}  // namespace

std::unique_ptr<Policy> make_fp32() { return std::make_unique<Fp32>(); }

}  // namespace octet
