// The full-precision baseline: nothing is quantized. oneDNN or cuDNN computes the convolutions.
#include "src/quant/policy.h"

namespace octet {
namespace {

class Fp32 final : public Policy {
 public:
  Fp32() : Policy({.name = "fp32", .quantizes = false, .real_convolution = RealConvolution::library}) {}
  Encoding encoding(Role) const override { return {}; }
};

}  // namespace

std::unique_ptr<Policy> make_fp32(const Config&) { return std::make_unique<Fp32>(); }

}  // namespace octet
