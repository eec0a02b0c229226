// Elementwise passes: values are computed, then measured, counted or encoded.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/values.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/affine.h"

namespace octet::cuda {
namespace {

constexpr int threads = walk_threads;

__device__ __forceinline__ float magnitude_of(float value) { return float_of(bits_of(value) & 0x7FFFFFFFu); }

template <class Numbers>
__global__ void __launch_bounds__(threads)
    absmax_kernel(const __grid_constant__ Numbers numbers, int64_t row_length, bool paired, ClipRange* ranges) {
  __shared__ float of_warp[threads / 32];
  float largest = 0;
  Walk(row_length, 0)(
      paired, static_cast<unsigned>(numbers.channels), [&](auto width, int64_t i) { return numbers.fetch(width, i); },
      [&](auto width, int64_t i, int, int channel, const auto& fetched) {
        const auto values = numbers.at(width, i, channel, fetched);
#pragma unroll
        for (int e = 0; e < width(); ++e) {
          const float magnitude = magnitude_of(values.at[e]);
          largest = magnitude > largest ? magnitude : largest;
        }
      });
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = __shfl_xor_sync(~0u, largest, mask);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < threads / 32; ++warp) largest = of_warp[warp] > largest ? of_warp[warp] : largest;
  atomicMax(&ranges[blockIdx.y].largest, bits_of(largest));
}

template <class Numbers>
__global__ void __launch_bounds__(threads) histogram_kernel(const __grid_constant__ Numbers numbers, int64_t count,
                                                            bool paired, uint32_t* histogram, int sample) {
  __shared__ uint32_t own[histogram_bins];
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads) own[bin] = 0;
  __syncthreads();
  Walk(count, 0)(
      paired, static_cast<unsigned>(numbers.channels),
      [&](auto width, int64_t i) {
        return counted(i, sample) ? numbers.fetch(width, i) : decltype(numbers.fetch(width, i)){};
      },
      [&](auto width, int64_t i, int, int channel, const auto& fetched) {
        if (!counted(i, sample)) return;  // both or none: blocks are of even size
        const auto values = numbers.at(width, i, channel, fetched);
#pragma unroll
        for (int e = 0; e < width(); ++e) atomicAdd(&own[histogram_bin(values.at[e])], 1u);
      });
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads)
    if (own[bin] != 0) atomicAdd(&histogram[bin], own[bin]);
}

template <class Numbers>
__global__ void __launch_bounds__(threads)
    encode_kernel(const __grid_constant__ Numbers numbers, int64_t row_length, bool paired,
                  const __grid_constant__ StepKey step_key, const __grid_constant__ Sink sink) {
  __shared__ unsigned saturated;
  if (threadIdx.x == 0) saturated = 0;
  __syncthreads();
  const RngKey key = step_key.now();
  const Walk walk(row_length, key.first);
  const unsigned channels = static_cast<unsigned>(numbers.channels);
  const auto fetch = [&](auto width, int64_t i) { return numbers.fetch(width, i); };
  if (is_real(sink.type)) {
    walk(paired, channels, fetch, [&](auto width, int64_t i, int, int channel, const auto& fetched) {
      write_some(static_cast<float*>(sink.out) + i, numbers.at(width, i, channel, fetched));
    });
    return;
  }
  const ClipRange range = sink.ranges[blockIdx.y];
  Random128 random = {};
  if (sink.stochastic) random = walk.random(key);
  unsigned beyond = 0;
  walk(paired, channels, fetch, [&](auto width, int64_t i, int j, int channel, const auto& fetched) {
    const auto values = numbers.at(width, i, channel, fetched);
    Some<int8_t, width()> codes;
#pragma unroll
    for (int e = 0; e < width(); ++e) {
      const float value = values.at[e];
      codes.at[e] = static_cast<int8_t>(
          sink.stochastic ? encode_stochastic(value, range.inverse_scale, sink.qmax, Walk::bits(random, j + e))
                          : encode_nearest(value, range.inverse_scale, sink.lowest, sink.qmax));
      beyond += magnitude_of(value) > range.clip ? 1u : 0u;
    }
    write_some(static_cast<int8_t*>(sink.out) + i, codes);
  });
  if (sink.saturated == nullptr) return;
  if (beyond != 0) atomicAdd(&saturated, beyond);
  __syncthreads();
  if (threadIdx.x == 0 && saturated != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(sink.saturated), static_cast<unsigned long long>(saturated));
}

__global__ void dequantize_kernel(const void* codes, DType type, int64_t count, const float* scale, float* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) out[i] = read_value(codes, type, i) * *scale;
}

__global__ void keep_codes_kernel(const void* x, DType type, int64_t count, int64_t channels, const float* scale,
                                  const float* offset, int8_t* codes) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const InputUnit unit{scale[i % channels], offset[i % channels]};
  write_code(codes, i, encode_nearest(read_value(x, type, i) - unit.offset, inverse_of(unit), -127, 127));
}

__global__ void find_nonfinite_kernel(const void* x, DType type, int64_t count, int32_t* found) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count && (bits_of(read_value(x, type, i)) & 0x7F800000u) == 0x7F800000u) *found = 1;
}

__global__ void sgd_kernel(const __grid_constant__ SgdProblem p, const StepState* state, const float* lr_scale,
                           float* w, const float* gradient, float* velocity, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const float base = state != nullptr ? state->learning_rate : p.learning_rate;
  const float rate = lr_scale != nullptr ? base * *lr_scale : base;
  const float weight = w[i], slope = gradient[i] + p.decay * weight;
  const float speed = p.momentum * velocity[i] + slope;
  velocity[i] = speed;
  w[i] = weight - rate * (p.nesterov ? slope + p.momentum * speed : speed);
}

}  // namespace

template <class Values>
void launch_absmax(const Values& values, int64_t rows, int64_t row_length, ClipRange* ranges, Stream stream) {
  with_types(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const bool paired = row_length % 2 == 0 && numbers.paired();
    OCTET_LAUNCH((absmax_kernel<Numbers>), walk_grid(rows, row_length), dim3(threads), stream, numbers, row_length,
                 paired, ranges);
  });
}
template <class Values>
void launch_histogram(const Values& values, int64_t count, Probe probe, Stream stream) {
  with_types(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const bool paired = count % 2 == 0 && numbers.paired();
    OCTET_LAUNCH((histogram_kernel<Numbers>), walk_grid(1, count), dim3(threads), stream, numbers, count, paired,
                 probe.histogram, probe.sample);
  });
}
template <class Values>
void launch_encode(const Values& values, int64_t rows, int64_t row_length, const StepKey& key, const Sink& sink,
                   Stream stream) {
  with_types(values, [&](const auto& numbers) {
    using Numbers = std::decay_t<decltype(numbers)>;
    const bool paired = row_length % 2 == 0 && numbers.paired() && pairs_align(sink.out, sink.type);
    OCTET_LAUNCH((encode_kernel<Numbers>), walk_grid(rows, row_length), dim3(threads), stream, numbers, row_length,
                 paired, key, sink);
  });
}
#define OCTET_INSTANTIATE(Values)                                                   \
  template void launch_absmax(const Values&, int64_t, int64_t, ClipRange*, Stream); \
  template void launch_histogram(const Values&, int64_t, Probe, Stream);            \
  template void launch_encode(const Values&, int64_t, int64_t, const StepKey&, const Sink&, Stream);
OCTET_INSTANTIATE(PlainValues)
OCTET_INSTANTIATE(AffineForwardValues)
OCTET_INSTANTIATE(AffineBackwardValues)

void launch_dequantize(const void* codes, DType type, int64_t count, const float* scale, float* out, Stream stream) {
  OCTET_LAUNCH(dequantize_kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, codes, type, count, scale,
               out);
}

void launch_keep_codes(const void* x, DType type, int64_t count, int64_t channels, const float* scale,
                       const float* offset, int8_t* codes, Stream stream) {
  OCTET_LAUNCH(keep_codes_kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, x, type, count, channels,
               scale, offset, codes);
}

void launch_find_nonfinite(const void* x, DType type, int64_t count, int32_t* found, Stream stream) {
  OCTET_LAUNCH(find_nonfinite_kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, x, type, count, found);
}

void launch_sgd(const SgdProblem& problem, const StepState* state, const float* lr_scale, float* w,
                const float* gradient, float* velocity, int64_t count, Stream stream) {
  OCTET_LAUNCH(sgd_kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, problem, state, lr_scale, w,
               gradient, velocity, count);
}

}  // namespace octet::cuda
