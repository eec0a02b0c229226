// Sums in fixed point.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/fixed_point.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

__global__ void add_fixed_kernel(const float* values, int64_t count, int64_t* sums, bool add, int32_t* beyond) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const bool fits = fits_fixed(values[i]);
  if (!fits) *beyond = 1;
  sums[i] = (add ? sums[i] : 0) + (fits ? to_fixed(values[i]) : 0);
}

__global__ void read_fixed_kernel(const int64_t* sums, int64_t count, float* values) {
  const int64_t i = thread_index();
  if (i < count) values[i] = from_fixed(sums[i]);
}

}  // namespace

void CudaBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  OCTET_LAUNCH_EACH(add_fixed_kernel, values.elements(), threads, stream_, values.f32(), values.elements(), sums, add,
                    beyond);
}

void CudaBackend::read_fixed(const int64_t* sums, Tensor values) {
  OCTET_LAUNCH_EACH(read_fixed_kernel, values.elements(), threads, stream_, sums, values.elements(), values.f32());
}

}  // namespace octet::cuda
