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
// One thread for each of `count` elements; the kernel begins with thread_index().
#define OCTET_LAUNCH_EACH(kernel, count, threads, stream, ...) \
  OCTET_LAUNCH(kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, __VA_ARGS__)

namespace octet::cuda {

constexpr unsigned blocks_for(int64_t work, int64_t per_block) {
  const int64_t blocks = (work + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks > 0 ? blocks : 1);
}
__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// The largest value of a block of `threads` threads, in thread 0.
template <int threads, class T>
__device__ __forceinline__ T largest_of_block(T largest) {
  __shared__ T of_warp[threads / 32];
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const T other = __shfl_xor_sync(~0u, largest, mask);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (int warp = 1; warp < threads / 32 && threadIdx.x == 0; ++warp)
    largest = of_warp[warp] > largest ? of_warp[warp] : largest;
  return largest;
}

// Grids have one extent, x: CUDA allows 2^31 - 1 blocks there, but 65,535 in the others. A grid of two extents is
// launched as grid_of(inner, outer), and its kernel divides.
struct Block {
  int inner, outer;
  __device__ __forceinline__ explicit Block(int64_t inner_extent)
      : inner(static_cast<int>(blockIdx.x % static_cast<unsigned>(inner_extent))),
        outer(static_cast<int>(blockIdx.x / static_cast<unsigned>(inner_extent))) {}
};
inline dim3 grid_of(int64_t inner, int64_t outer) {
  REQUIRE(inner * outer <= 0x7FFFFFFF, "use a smaller batch per GPU", "a kernel of ", inner, " x ", outer, " blocks");
  return dim3(static_cast<unsigned>(inner * outer));
}

}  // namespace octet::cuda
