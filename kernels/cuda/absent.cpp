// Replaces the CUDA backend in a build without CUDA.
#include "kernels/backend.h"

namespace octet {

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) {
  throw UsageError(__FILE__, __LINE__, "octet was built without CUDA",
                   "build it where nvcc is installed (cmake -DOCTET_CUDA=ON), or set backend.device: cpu");
}

bool built_with_cuda() { return false; }

}  // namespace octet
