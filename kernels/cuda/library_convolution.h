// Real-valued convolutions by a library that chooses among many kernels: fast, with sums in the library's own order.
// The fixed-order kernels compute what the library does not take.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace octet::cuda {

enum class ConvPass : uint8_t { forward, backward_data, backward_weight };

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  virtual std::string name() const = 0;  // "cuDNN 9.19.0"
  // Whether run() can do this pass of the problem. Decided at the first call. add: onto the result's old values.
  virtual bool takes(ConvPass, const ConvProblem&, bool add) = 0;
  // Computes one of the f32 tensors x, w and y of the problem from the other two. All are in the device's memory,
  // dense, at multiples of 16 bytes. Requires takes().
  virtual void run(ConvPass, const ConvProblem&, bool add, float* x, float* w, float* y) = 0;
  virtual size_t scratch_bytes() const = 0;  // of the device
};

// cuDNN; null, with the reason in `missing`, if it is not installed or octet was built without it.
std::unique_ptr<LibraryConvolution> make_cudnn_convolution(int index, const Device&, Stream, std::string& missing);

}  // namespace octet::cuda
