// Copies f32 to another place, or as bf16, or onto what is there.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

__global__ void copy_real(const float* from, int64_t count, void* to, bool bf16, bool add) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) write_real(to, bf16, add, i, from[i]);
}

}  // namespace

void launch_copy_real(const float* from, int64_t count, void* to, bool bf16, bool add, Stream stream) {
  OCTET_LAUNCH(copy_real, dim3(blocks_for(count, threads)), dim3(threads), stream, from, count, to, bf16, add);
}

}  // namespace octet::cuda
