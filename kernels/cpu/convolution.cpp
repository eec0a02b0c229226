// The backend's convolutions: codes go to the int8 contraction, real operands to the kind the policy asked for.
#include "kernels/cpu/backend.h"

namespace octet::cpu {

void CpuBackend::compute(const ConvForwardCall& call) { convolution_of(call.x).forward(call); }
void CpuBackend::compute(const ConvBackwardDataCall& call) { convolution_of(call.dy).backward_data(call); }
void CpuBackend::compute(const ConvBackwardWeightCall& call) { convolution_of(call.x).backward_weight(call); }

}  // namespace octet::cpu
