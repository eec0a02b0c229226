// The range of the codes of one tensor, found on the device.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace octet::cuda {

struct ClipRange {
  uint32_t largest;  // bits of max |value|
  float clip, inverse_scale;
};
// Completes a range from its largest value, or from the held clip, and writes the scale.
void launch_finish_range(ClipRange*, Range, const float* held, int qmax, float* scale, Stream);

}  // namespace octet::cuda
