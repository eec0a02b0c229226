// A random key, as kernels receive it. In a recorded program the parts that differ between steps are read from the
// device's memory.
#pragma once
#include "kernels/backend.h"
#include "kernels/shared/random.h"

namespace octet::cuda {

struct StepKey {
  RngKey key;
  const StepState* state = nullptr;  // null: the key as it is
#ifdef __CUDACC__
  __host__ __device__
#endif
      RngKey
      now() const {
    if (state == nullptr) return key;
    return {key.seed, state->step, key.layer_id, (state->first_sample + key.within) * key.per_sample, key.per_sample,
            key.within};
  }
};

}  // namespace octet::cuda
