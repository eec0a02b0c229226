// Replaces cuDNN in a build without its headers, and in the emulated one.
#include "kernels/cuda/library_convolution.h"

namespace octet::cuda {

std::unique_ptr<LibraryConvolution> make_cudnn_convolution(int, const Device&, Stream, std::string& missing) {
  missing = "built without cuDNN";
  return nullptr;
}

}  // namespace octet::cuda
