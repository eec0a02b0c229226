// What many kernels receive from the host.
#pragma once
#include "kernels/backend.h"

namespace octet::cuda {

// A random key. In a recorded program the parts that differ between steps are read from the device's memory.
struct StepKey {
  RngKey key;
  const StepState* state = nullptr;  // null: the key as it is
#ifdef __CUDACC__
  __host__ __device__
#endif
      RngKey
      now() const {
    if (state == nullptr) return key;
    return {key.seed,       state->step, key.layer_id, (state->first_sample + key.within) * key.per_sample,
            key.per_sample, key.within};
  }
};

// f32 or bf16 elements that a kernel writes, or adds to.
struct RealOutput {
  void* data = nullptr;
  bool bf16 = false, add = false;
};
inline RealOutput real_output(const Into& into) {
  return {into.tensor.data, into.tensor.dtype == DType::bf16, into.add};
}

// What is computed once for each channel of a norm. x's numbers have the units given by scale and offset, (channels)
// each or null for 1 and 0.
struct ChannelInputs {
  AffineProblem problem;
  Moments moments;
  AffineParameters parameters;
  const float *scale = nullptr, *offset = nullptr;
};
// The coefficients of the gradient of x, (channels) each. d_gamma, d_beta: optional.
struct AffineGradients {
  ChannelInputs of;
  float *A = nullptr, *B = nullptr, *C = nullptr;
  RealOutput d_gamma = {}, d_beta = {};
};

}  // namespace octet::cuda
