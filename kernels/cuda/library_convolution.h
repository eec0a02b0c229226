// Real-valued convolutions by a library that chooses among many kernels: fast, sums in an order of its own. What it
// does not take goes to the fixed-order kernels.
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
  // Whether run() can do this pass of the problem. Decided once, when it is first asked. add: onto what is there.
  virtual bool takes(ConvPass, const ConvProblem&, bool add) = 0;
  // Of the f32 tensors x, w and y of the problem the pass writes one from the other two. All are the device's, dense,
  // at multiples of 16 bytes. Requires that the library takes it.
  virtual void run(ConvPass, const ConvProblem&, bool add, float* x, float* w, float* y) = 0;
  virtual size_t scratch_bytes() const = 0;  // of the device
};

// cuDNN. Null, with what is missing, where it is not installed or octet was built without it.
std::unique_ptr<LibraryConvolution> make_cudnn_convolution(int index, const Device&, Stream, std::string& missing);

}  // namespace octet::cuda
