// Convolutions of the CPU backend: int8 contractions per instruction set, and the real-valued ones.
#pragma once
#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace octet::cpu {

// Takes calls that the backend has checked.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual void forward(const ConvForwardCall&) = 0;
  virtual void backward_data(const ConvBackwardDataCall&) = 0;
  virtual void backward_weight(const ConvBackwardWeightCall&) = 0;
  // Of images of bytes; by make_int8_convolution() alone.
  virtual void forward(const PixelForwardCall&);
  virtual void backward_weight(const PixelBackwardWeightCall&);
  virtual size_t scratch_bytes() const = 0;
};
std::unique_ptr<Convolution> make_int8_convolution(Isa, Threads);
std::unique_ptr<Convolution> make_fixed_order_convolution(Isa, Threads);
std::unique_ptr<Convolution> make_onednn_convolution(Threads);
std::unique_ptr<Convolution> make_chunked_convolution(Isa, Threads);

// The moments of a real-valued output, by channel. values: of the shape, f32. Least and largest values only where
// moments asks for them.
void measure_moments(const Threads&, const float* values, Shape, Moments, Scratch&);

}  // namespace octet::cpu
