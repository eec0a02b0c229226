// Concatenation along channels, one part at a time.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

struct Scales {
  const float* of[max_parts];
};

__global__ void largest_scale(const __grid_constant__ Scales scales, int count, float* largest) {
  float result = 0;
  for (int i = 0; i < count; ++i) result = result < *scales.of[i] ? *scales.of[i] : result;
  *largest = result;
}

__global__ void concat_part(const void* from, DType type, const float* scale, const float* all_scale, int64_t count,
                            int channels, int all_channels, int first, void* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const int64_t at = i / channels * all_channels + first + i % channels;
  const float ratio = scale == nullptr || *scale == *all_scale ? 1.0f : *scale / *all_scale;
  const float value = read_value(from, type, i) * ratio;
  if (is_real(type))
    write_real(to, type == DType::bf16, false, at, value);
  else
    write_code(to, at, static_cast<int>(round_nearest(value)));
}

__global__ void split_part(const void* from, DType type, int64_t count, int channels, int all_channels, int first,
                           void* to, bool bf16, bool add) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  write_real(to, bf16, add, i, read_value(from, type, i / channels * all_channels + first + i % channels));
}

}  // namespace

void launch_largest_scale(const float* const* scales, int count, float* largest, Stream stream) {
  Scales all{};
  for (int i = 0; i < count; ++i) all.of[i] = scales[i];
  OCTET_LAUNCH(largest_scale, dim3(1), dim3(1), stream, all, count, largest);
}

void launch_concat_part(const void* from, DType type, const float* scale, const float* all_scale, int64_t pixels,
                        int channels, int all_channels, int first, void* to, Stream stream) {
  const int64_t count = pixels * channels;
  OCTET_LAUNCH(concat_part, dim3(blocks_for(count, threads)), dim3(threads), stream, from, type, scale, all_scale,
               count, channels, all_channels, first, to);
}

void launch_split_part(const void* from, DType type, int64_t pixels, int channels, int all_channels, int first,
                       void* to, bool bf16, bool add, Stream stream) {
  const int64_t count = pixels * channels;
  OCTET_LAUNCH(split_part, dim3(blocks_for(count, threads)), dim3(threads), stream, from, type, count, channels,
               all_channels, first, to, bf16, add);
}

}  // namespace octet::cuda
