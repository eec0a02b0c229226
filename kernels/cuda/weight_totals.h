// How blocks add the sums of their splits to a weight gradient. For .cu files.
#pragma once
#include "kernels/cuda/convolution.h"
#include "kernels/cuda/device.h"

namespace octet::cuda {

__device__ __forceinline__ void write_weight(const WeightOutput& to, float scale, int64_t i, int64_t total) {
  const float value = static_cast<float>(total) * scale;
  to.dw[i] = to.add ? to.dw[i] + value : value;
}

// visit(f) calls f(index of an element of dw, its sum) for each of the thread's sums of one tile. All threads of the
// block come here.
template <class Visit>
__device__ __forceinline__ void finish_split(const WeightOutput& to, int tile, int parts, const Visit& visit) {
  if (to.dw == nullptr) {
    visit([&](int64_t i, int32_t sum) { add_atomically(to.totals + i, sum); });
    return;
  }
  const float scale = *to.scale_x * *to.scale_dy;
  if (to.totals == nullptr) {
    visit([&](int64_t i, int32_t sum) { write_weight(to, scale, i, sum); });
    return;
  }
  visit([&](int64_t i, int32_t sum) { add_atomically(to.totals + i, sum); });
  if (!last_to_arrive(to.tickets + tile, static_cast<unsigned>(parts))) return;
  visit([&](int64_t i, int32_t) {
    write_weight(to, scale, i, to.totals[i]);
    to.totals[i] = 0;
  });
}

}  // namespace octet::cuda
