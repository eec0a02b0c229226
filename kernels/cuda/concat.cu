// Concatenation along channels, one part at a time.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256, max_parts = 64;

struct Scales {
  const float* of[max_parts];
};

__global__ void largest_scale(const __grid_constant__ Scales scales, int count, float* largest) {
  float result = 0;
  for (int i = 0; i < count; ++i) result = result < *scales.of[i] ? *scales.of[i] : result;
  *largest = result;
}

// Where a part's channels lie among all of a pixel.
struct Slice {
  int64_t channels, all_channels, first;
  __device__ __forceinline__ int64_t place(int64_t i) const {
    return i / channels * all_channels + first + i % channels;
  }
};

__global__ void concat_part(const void* from, DType type, const float* scale, const float* all_scale, int64_t count,
                            const __grid_constant__ Slice slice, void* to) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const float ratio = scale == nullptr || *scale == *all_scale ? 1.0f : *scale / *all_scale;
  write_value(to, type, slice.place(i), read_value(from, type, i) * ratio);
}

__global__ void split_part(const void* from, DType type, int64_t count, const __grid_constant__ Slice slice,
                           const __grid_constant__ RealOutput to) {
  const int64_t i = thread_index();
  if (i < count) write_real(to, i, read_value(from, type, slice.place(i)));
}

}  // namespace

void CudaBackend::compute(const ConcatForwardCall& call) {
  const auto& [parts, y] = call;
  REQUIRE(parts.size() <= size_t{max_parts}, say("concatenate at most ", max_parts, " parts"), "a concatenation of ",
          parts.size(), " parts");
  Scales scales{};
  int count = 0;
  for (const QTensor& part : parts) scales.of[count++] = part.scale;
  if (!y.real()) OCTET_LAUNCH(largest_scale, dim3(1), dim3(1), stream_, scales, count, y.scale);
  Slice slice{0, y.values.shape.c, 0};
  for (const QTensor& part : parts) {
    slice.channels = part.values.shape.c;
    OCTET_LAUNCH_EACH(concat_part, part.values.elements(), threads, stream_, part.values.data, part.values.dtype,
                      part.scale, y.scale, part.values.elements(), slice, y.values.data);
    slice.first += slice.channels;
  }
}

void CudaBackend::compute(const ConcatBackwardCall& call) {
  const auto& [dy, parts] = call;
  Slice slice{0, dy.shape.c, 0};
  for (const Into& part : parts) {
    slice.channels = part.tensor.shape.c;
    const int64_t count = dy.shape.pixels() * slice.channels;
    if (part)
      OCTET_LAUNCH_EACH(split_part, count, threads, stream_, dy.data, dy.dtype, count, slice, real_output(part));
    slice.first += slice.channels;
  }
}

}  // namespace octet::cuda
