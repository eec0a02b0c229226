// A build without oneDNN computes the fp32 policy with octet's own kernels.
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/isa.h"

namespace octet::cpu {

std::unique_ptr<Convolution> make_onednn_convolution(Threads threads) {
  return make_fixed_order_convolution(best_isa(), threads);
}

}  // namespace octet::cpu

namespace octet {

const char* real_convolutions() { return "octet's own"; }

}  // namespace octet
