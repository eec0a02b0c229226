// Depthwise convolutions of integer networks by the kernels of depthwise_codes.h.
#pragma once
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/depthwise_codes.h"
#include "kernels/cpu/parallel.h"

namespace octet::cpu {

class DepthwiseConvolution final : public ReadyConvolution {
 public:
  // Whether the kernels compute it with the codes of Requantization: they have its form, and f32 holds sums and
  // factors.
  static bool fits(const ConvRequantizeCall&);
  DepthwiseConvolution(const DepthwiseCodes&, const ConvRequantizeCall&, Threads);
  void run(Tensor x, Tensor residual, Tensor y) override;

 private:
  const DepthwiseCodes& kernels_;
  const ConvProblem problem_;
  const Threads threads_;
  const int lowest_, highest_;
  std::vector<int8_t> weights_;
  std::vector<int32_t> start_;
  std::vector<float> factor_;
  std::vector<uint8_t> zeros_;  // a row of x
};

}  // namespace octet::cpu
