// The finiteness check.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

__global__ void find_nonfinite_kernel(const void* x, DType type, int64_t count, int32_t* found) {
  const int64_t i = thread_index();
  if (i < count && (bits_of(read_value(x, type, i)) & 0x7F800000u) == 0x7F800000u) *found = 1;
}

}  // namespace

void CudaBackend::find_nonfinite(Tensor x, int32_t* found) {
  fill_zero(found, sizeof *found, stream_);
  if (is_real(x.dtype))
    OCTET_LAUNCH_EACH(find_nonfinite_kernel, x.elements(), threads, stream_, x.data, x.dtype, x.elements(), found);
}

}  // namespace octet::cuda
