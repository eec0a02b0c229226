// Clips and scales.
#include "kernels/cuda/clip_range.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {
namespace {

// One thread.
__global__ void finish_range(ClipRange* range, int qmax, float* scale) {
  *scale = complete(*range, float_of(range->largest), qmax);
}

}  // namespace

void launch_finish_range(ClipRange* range, int qmax, float* scale, Stream stream) {
  OCTET_LAUNCH(finish_range, dim3(1), dim3(1), stream, range, qmax, scale);
}

}  // namespace octet::cuda
