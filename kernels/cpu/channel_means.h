// The mean of each channel over an image, as codes: a convolution of integer networks whose kernel of ones covers the
// image. x is read once, as it lies.
#pragma once
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"

namespace octet::cpu {

class ChannelMeans final : public ReadyConvolution {
 public:
  static bool fits(const ConvRequantizeCall&);  // whether it is such a convolution
  ChannelMeans(const ConvRequantizeCall&, Threads);
  void run(Tensor x, Tensor residual, Tensor y) override;

 private:
  template <class From, class To>
  void compute(const From* x, To* y) const;

  const ConvProblem problem_;
  const Threads threads_;
  const int lowest_, highest_;
  const std::vector<int32_t> bias_;
  const std::vector<double> factor_;
};

}  // namespace octet::cpu
