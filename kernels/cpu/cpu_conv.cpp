// The backend's convolutions: codes go to the int8 contraction, real operands to the kind the policy asked for.
#include "kernels/cpu/cpu_backend.h"

namespace octet::cpu {

Convolution& CpuBackend::convolution(QTensor first, QTensor second) {
  REQUIRE(first.real() == second.real(), "encode both operands, or dequantize both",
          "a convolution of codes with real numbers");
  return first.real() ? *real_ : *codes_;
}

void CpuBackend::conv_forward(const ConvProblem& problem, QTensor x, QTensor w, Tensor y, Moments moments) {
  convolution(x, w).forward(problem, x, w, y, moments);
}
void CpuBackend::conv_forward_groups(const ConvProblem& problem, QTensor x, QTensor w, Tensor y,
                                     std::span<const Moments> moments) {
  if (!convolution(x, w).forward_groups(problem, x, w, y, moments))
    Backend::conv_forward_groups(problem, x, w, y, moments);
}
void CpuBackend::conv_backward_data(const ConvProblem& problem, QTensor dy, QTensor w, Into dx) {
  convolution(dy, w).backward_data(problem, dy, w, dx);
}
void CpuBackend::conv_backward_weight(const ConvProblem& problem, QTensor x, QTensor dy, Into dw) {
  convolution(x, dy).backward_weight(problem, x, dy, dw);
}

}  // namespace octet::cpu
