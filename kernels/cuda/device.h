// The language of the kernels: CUDA's, or C++ where a test compiles them for the host. Only .cu files include this.
//
// Arithmetic is the same on both, and the same as the CPU backend's: no fused multiply-add (nvcc -fmad=false, gcc
// -ffp-contract=off), exact division and square root. A file that defines OCTET_FLUSH_SUBNORMALS first takes
// subnormal numbers for zero, as the CPU's passes do.
#pragma once
#ifdef OCTET_DEVICE_HEADER  // defines for the host what the lines below define for a GPU
#include OCTET_DEVICE_HEADER
#else
#include <cuda_runtime.h>

#include "kernels/cuda/primitives.h"
#include "kernels/cuda/runtime.h"

// kernel may be a template's name in parentheses.
#define OCTET_LAUNCH(kernel, grid, block, stream, ...)                                   \
  do {                                                                                   \
    ::octet::cuda::begin_launch(stream);                                                 \
    kernel<<<grid, block, 0, static_cast<cudaStream_t>((stream).handle)>>>(__VA_ARGS__); \
    ::octet::cuda::check_launch(#kernel, reinterpret_cast<const void*>(kernel), stream); \
  } while (0)
#endif

namespace octet::cuda {

inline unsigned blocks_for(int64_t work, int64_t per_block) {
  const int64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks > 0 ? blocks : 1);
}

}  // namespace octet::cuda
