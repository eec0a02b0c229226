// The steps of the quantized all-reduce: one launch for all blocks of a bucket, a thread block for each. Subnormal
// numbers stay what they are, as on the host.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/block_scale.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

// visit(element of the part)
template <class Visit>
__device__ __forceinline__ void for_elements(const BlockPart& part, const Visit& visit) {
  for (size_t i = threadIdx.x; i < part.count; i += threads) visit(i);
}

// visit(element of the part, its random bits): as Walk does, a thread takes the elements that one random block serves.
template <class Visit>
__device__ __forceinline__ void for_random_elements(const BlockPart& part, const RngKey& key, const Visit& visit) {
  const unsigned lane = threadIdx.x % 16;
  const uint64_t begin = part.offset, end = begin + part.count;
  for (uint64_t group = begin / 256 + threadIdx.x / 16; group * 256 < end; group += threads / 16) {
    const Random128 random = philox(group * 16 + lane, key.step, key.site, key.seed);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const uint64_t element = group * 256 + static_cast<uint64_t>(32 * (j / 2) + j % 2) + 2 * lane;
      if (element >= begin && element < end) visit(static_cast<size_t>(element - begin), Walk::bits(random, j));
    }
  }
}

__global__ void __launch_bounds__(threads) measure_blocks(const BlockPart* parts, const float* values, float* absmax) {
  __shared__ uint32_t of_warp[threads / 32];
  const BlockPart part = parts[blockIdx.x];
  uint32_t largest = 0;
  for_elements(part, [&](size_t i) {
    const uint32_t bits = bits_of(values[part.offset + i]) & 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  });
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, largest, mask);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < threads / 32; ++warp) largest = of_warp[warp] > largest ? of_warp[warp] : largest;
  absmax[part.block] = largest_of_bits(largest);
}

__global__ void __launch_bounds__(threads)
    encode_blocks(const BlockPart* parts, const float* values, const float* absmax,
                  const __grid_constant__ StepKey step_key, int8_t* codes) {
  const RngKey key = step_key.now();
  const BlockPart part = parts[blockIdx.x];
  const BlockScale scale = block_scale(absmax[part.block]);
  for_random_elements(part, key, [&](size_t i, uint32_t random) {
    codes[part.position + i] = encode_stochastic(values[part.offset + i], scale.inverse, block_qmax, random);
  });
}

__global__ void __launch_bounds__(threads)
    reduce_blocks(const BlockPart* parts, const int8_t* received, size_t shard, int ranks,
                  const __grid_constant__ StepKey step_key, int8_t* summed) {
  const RngKey key = step_key.now();
  const BlockPart part = parts[blockIdx.x];
  for_random_elements(part, key, [&](size_t i, uint32_t random) {
    const size_t at = part.position + i;
    int32_t sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += received[static_cast<size_t>(rank) * shard + at];
    summed[at] = encode_stochastic(static_cast<float>(sum) / static_cast<float>(ranks), 1, block_qmax, random);
  });
}

__global__ void __launch_bounds__(threads)
    decode_blocks(const BlockPart* parts, const int8_t* codes, const float* absmax, int ranks, float* values) {
  const BlockPart part = parts[blockIdx.x];
  const float unit = block_scale(absmax[part.block]).step * static_cast<float>(ranks);
  for_elements(part, [&](size_t i) { values[part.offset + i] = static_cast<float>(codes[part.position + i]) * unit; });
}

__global__ void __launch_bounds__(threads) collect_parts(const BlockPart* parts, const float* values, float* exact) {
  const BlockPart part = parts[blockIdx.x];
  for_elements(part, [&](size_t i) { exact[part.position + i] = values[part.offset + i]; });
}

__global__ void __launch_bounds__(threads) distribute_parts(const BlockPart* parts, const float* exact, float* values) {
  const BlockPart part = parts[blockIdx.x];
  for_elements(part, [&](size_t i) { values[part.offset + i] = exact[part.position + i]; });
}

dim3 grid_of(PartTable parts) { return dim3(static_cast<unsigned>(parts.count)); }

}  // namespace

void launch_measure_blocks(PartTable parts, const float* values, float* absmax, Stream stream) {
  OCTET_LAUNCH(measure_blocks, grid_of(parts), dim3(threads), stream, parts.parts, values, absmax);
}
void launch_encode_blocks(PartTable parts, const float* values, const float* absmax, const StepKey& key, int8_t* codes,
                          Stream stream) {
  OCTET_LAUNCH(encode_blocks, grid_of(parts), dim3(threads), stream, parts.parts, values, absmax, key, codes);
}
void launch_reduce_blocks(PartTable parts, const int8_t* received, size_t shard, int ranks, const StepKey& key,
                          int8_t* summed, Stream stream) {
  if (parts.count == 0) return;  // a shard of nothing but padding
  OCTET_LAUNCH(reduce_blocks, grid_of(parts), dim3(threads), stream, parts.parts, received, shard, ranks, key, summed);
}
void launch_decode_blocks(PartTable parts, const int8_t* codes, const float* absmax, int ranks, float* values,
                          Stream stream) {
  OCTET_LAUNCH(decode_blocks, grid_of(parts), dim3(threads), stream, parts.parts, codes, absmax, ranks, values);
}
void launch_collect_parts(PartTable parts, const float* values, float* exact, Stream stream) {
  OCTET_LAUNCH(collect_parts, grid_of(parts), dim3(threads), stream, parts.parts, values, exact);
}
void launch_distribute_parts(PartTable parts, const float* exact, float* values, Stream stream) {
  OCTET_LAUNCH(distribute_parts, grid_of(parts), dim3(threads), stream, parts.parts, exact, values);
}

}  // namespace octet::cuda
