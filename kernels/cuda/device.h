// The language of the kernels: CUDA's, or its emulation on the host. Only .cu files include this.
//
// Arithmetic is the same on both, and the same as the CPU backend's: no fused multiply-add (nvcc -fmad=false, gcc
// -ffp-contract=off), exact division and square root. A file that defines OCTET_FLUSH_SUBNORMALS first takes
// subnormal numbers for zero, as the CPU's passes do.
#pragma once
#include "kernels/cuda/runtime.h"

#ifdef OCTET_EMULATED
#include "kernels/cuda/emulation/emulation.h"
#ifdef OCTET_FLUSH_SUBNORMALS
#define OCTET_FLUSHES true
#else
#define OCTET_FLUSHES false
#endif
#define OCTET_LAUNCH(kernel, grid, block, stream, ...)                                             \
  do {                                                                                             \
    ::octet::cuda::begin_launch(stream);                                                           \
    ::octet::emulation::launch(#kernel, grid, block, OCTET_FLUSHES, [=] { kernel(__VA_ARGS__); }); \
    ::octet::cuda::check_launch(#kernel, nullptr, stream);                                         \
  } while (0)
#else
#include <cuda_runtime.h>
// kernel may be a template's name in parentheses.
#define OCTET_LAUNCH(kernel, grid, block, stream, ...)                                   \
  do {                                                                                   \
    ::octet::cuda::begin_launch(stream);                                                 \
    kernel<<<grid, block, 0, static_cast<cudaStream_t>((stream).handle)>>>(__VA_ARGS__); \
    ::octet::cuda::check_launch(#kernel, reinterpret_cast<const void*>(kernel), stream); \
  } while (0)
#endif

#include "kernels/cuda/primitives.h"

namespace octet::cuda {

inline unsigned blocks_for(int64_t work, int64_t per_block) {
  const int64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks > 0 ? blocks : 1);
}

}  // namespace octet::cuda
