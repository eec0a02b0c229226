// The range of the codes of one tensor, found on the device.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {

struct ClipRange {
  uint32_t largest;  // bits of max |value|
  float clip, inverse_scale;
};
// Completes a range by its clip. Returns the scale of the codes.
OCTET_BOTH float complete(ClipRange& range, float clip, int qmax) {
  range.clip = clip;
  range.inverse_scale = inverse_scale_of(clip, qmax);
  return scale_of(clip, qmax);
}
// Completes a range from its largest value, and writes the scale.
void launch_finish_range(ClipRange*, int qmax, float* scale, Stream);

}  // namespace octet::cuda
