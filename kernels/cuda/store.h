// Reading and writing f32, bf16 and codes by a type known when the kernel runs: the branch is the same in all threads.
// For .cu files.
#pragma once
#include "kernels/base/tensor.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {

__device__ __forceinline__ float read_value(const void* from, DType type, int64_t i) {
  if (type == DType::f32) return static_cast<const float*>(from)[i];
  if (type == DType::bf16) return from_bf16(static_cast<const uint16_t*>(from)[i]);
  return static_cast<const int8_t*>(from)[i];
}
__device__ __forceinline__ void write_real(void* to, bool bf16, bool add, int64_t i, float value) {
  if (bf16) {
    uint16_t* const at = static_cast<uint16_t*>(to) + i;
    *at = to_bf16(add ? from_bf16(*at) + value : value);
  } else {
    float* const at = static_cast<float*>(to) + i;
    *at = add ? *at + value : value;
  }
}

}  // namespace octet::cuda
