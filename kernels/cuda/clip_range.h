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
// A held range that a kernel completes beside its own work, in one thread; none if `range` is null.
struct HeldRange {
  ClipRange* range = nullptr;
  const float* held = nullptr;
  int qmax = 0;
  float* scale = nullptr;
};
#ifdef __CUDACC__
__device__
#endif
    inline void
    complete(const HeldRange& of) {
  if (of.range != nullptr) *of.scale = complete(*of.range, *of.held, of.qmax);
}
// Completes a range from its largest value, or from the held clip, and writes the scale.
void launch_finish_range(ClipRange*, Range, const float* held, int qmax, float* scale, Stream);

}  // namespace octet::cuda
