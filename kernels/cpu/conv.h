// Convolutions of the CPU backend: int8 contractions per instruction set, and the real-valued ones.
#pragma once
#include <memory>

#include "kernels/backend.h"

namespace octet::cpu {

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual void forward(const ConvProblem&, QTensor x, QTensor w, Tensor y, Moments) = 0;
  // Backend::conv_forward_groups(). Returns false if the caller has to compute one group after the other.
  virtual bool forward_groups(const ConvProblem&, QTensor, QTensor, Tensor, std::span<const Moments>) { return false; }
  virtual void backward_data(const ConvProblem&, QTensor dy, QTensor w, Into dx) = 0;
  virtual void backward_weight(const ConvProblem&, QTensor x, QTensor dy, Into dw) = 0;
  virtual size_t scratch_bytes() const = 0;
};
std::unique_ptr<Convolution> make_int8_convolution(Isa, int threads);
std::unique_ptr<Convolution> make_fixed_order_convolution(Isa, int threads);
std::unique_ptr<Convolution> make_onednn_convolution(int threads);
std::unique_ptr<Convolution> make_chunked_convolution(Isa, int threads);

}  // namespace octet::cpu
