// Elementwise passes: values are computed, then measured, counted or encoded.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/store.h"
#include "kernels/cuda/walk.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

constexpr int threads = walk_threads;

__device__ __forceinline__ float value_at(const PlainValues& p, int64_t i, int) { return read_value(p.x, p.type, i); }

__device__ __forceinline__ float value_at(const AffineForwardValues& p, int64_t i, int channel) {
  float z = read_value(p.x, p.type, i) * p.a[channel] + p.b[channel];
  if (p.residual != nullptr) {
    const float residual = read_value(p.residual, p.residual_type, i);
    z += p.residual_type == DType::s8 ? residual * *p.residual_scale : residual;
  }
  const float raised = p.low > z ? p.low : z;  // in this order NaN stays NaN
  return p.high < raised ? p.high : raised;
}

__device__ __forceinline__ float masked(const AffineBackwardValues& p, int64_t i, int channel, float x) {
  const float dy = read_value(p.dy, p.dy_type, i);
  if (p.mask == Mask::everywhere) return dy;
  const float v = p.mask == Mask::input ? x * p.a[channel] + p.b[channel] : read_value(p.y, p.y_type, i);
  return v > p.low && v < p.high ? dy : 0.0f;
}
__device__ __forceinline__ float value_at(const AffineBackwardValues& p, int64_t i, int channel) {
  const float x = read_value(p.x, p.type, i), dz = masked(p, i, channel, x);
  if (p.d_residual != nullptr) write_real(p.d_residual, p.residual_bf16, p.residual_add, i, dz);
  return p.A[channel] * dz + (p.B[channel] * x + p.C[channel]);
}

template <class Values>
__device__ __forceinline__ unsigned channels_of(const Values& values) {
  return static_cast<unsigned>(values.channels);
}

template <class Values>
__global__ void __launch_bounds__(threads)
    absmax_kernel(const __grid_constant__ Values values, int64_t row_length, ClipRange* ranges) {
  __shared__ float of_warp[threads / 32];
  float largest = 0;
  Walk(row_length, 0)(channels_of(values), [&](int64_t i, int, int channel) {
    const float magnitude = float_of(bits_of(value_at(values, i, channel)) & 0x7FFFFFFFu);
    largest = magnitude > largest ? magnitude : largest;
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

template <class Values>
__global__ void __launch_bounds__(threads)
    histogram_kernel(const __grid_constant__ Values values, int64_t count, uint32_t* histogram, int sample) {
  __shared__ uint32_t own[histogram_bins];
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads) own[bin] = 0;
  __syncthreads();
  Walk(count, 0)(channels_of(values), [&](int64_t i, int, int channel) {
    if (counted(i, sample)) atomicAdd(&own[histogram_bin(value_at(values, i, channel))], 1u);
  });
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < histogram_bins; bin += threads)
    if (own[bin] != 0) atomicAdd(&histogram[bin], own[bin]);
}

template <class Values>
__global__ void __launch_bounds__(threads)
    encode_kernel(const __grid_constant__ Values values, int64_t row_length, const __grid_constant__ StepKey step_key,
                  const __grid_constant__ Sink sink) {
  __shared__ unsigned saturated;
  if (threadIdx.x == 0) saturated = 0;
  __syncthreads();
  const RngKey key = step_key.now();
  const Walk walk(row_length, key.first);
  if (sink.type != DType::s8) {
    walk(channels_of(values),
         [&](int64_t i, int, int channel) { static_cast<float*>(sink.out)[i] = value_at(values, i, channel); });
    return;
  }
  const ClipRange range = sink.ranges[blockIdx.y];
  int8_t* const out = static_cast<int8_t*>(sink.out);
  Random128 random = {};
  if (sink.stochastic) random = walk.random(key);
  unsigned beyond = 0;
  walk(channels_of(values), [&](int64_t i, int j, int channel) {
    const float value = value_at(values, i, channel);
    out[i] = sink.stochastic ? encode_stochastic(value, range.inverse_scale, sink.qmax, Walk::bits(random, j))
                             : encode_nearest(value, range.inverse_scale, sink.qmax);
    beyond += float_of(bits_of(value) & 0x7FFFFFFFu) > range.clip ? 1u : 0u;
  });
  if (sink.saturated == nullptr) return;
  if (beyond != 0) atomicAdd(&saturated, beyond);
  __syncthreads();
  if (threadIdx.x == 0 && saturated != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(sink.saturated), static_cast<unsigned long long>(saturated));
}

// One column of the period over the rows of one chunk.
constexpr int columns = 64;
__global__ void __launch_bounds__(columns)
    reduce_chunks(const __grid_constant__ AffineBackwardValues p, const float* mean, int64_t count, int64_t chunk,
                  int64_t period, float* partial) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * columns + threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * chunk;
  const int64_t end = first + chunk < count ? first + chunk : count;
  const int channel = static_cast<int>(column % p.channels);
  const float center = mean[channel];
  float sum = 0, dot = 0;
  const auto add = [&](int64_t i) {
    const float x = read_value(p.x, p.type, i), dz = masked(p, i, channel, x);
    sum += dz;
    dot += dz * (x - center);
  };
  const int64_t quarter = affine_quarter(end - first, period);
  for (int64_t i = first + column; i < first + quarter; i += period)
    for (int part = 0; part < 4; ++part) add(i + part * quarter);
  for (int64_t i = first + 4 * quarter + column; i < end; i += period) add(i);
  float* const to = partial + static_cast<int64_t>(blockIdx.x) * 2 * period + column;
  to[0] = sum;
  to[period] = dot;
}

// (chunks, 2, period) floats to (chunks, 2, channels) doubles.
__global__ void reduce_columns(const float* partial, int64_t rows, int64_t period, int64_t channels, double* chunks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= rows * channels) return;
  const float* const row = partial + i / channels * period;
  double sum = 0;
  for (int64_t column = i % channels; column < period; column += channels) sum += static_cast<double>(row[column]);
  chunks[i] = sum;
}
__global__ void reduce_rows(const double* chunks, int64_t rows, int64_t length, double* sums) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * columns + threadIdx.x;
  if (i >= length) return;
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += chunks[row * length + i];
  sums[i] = sum;
}

__global__ void dequantize_kernel(const int8_t* codes, int64_t count, int64_t row_length, const float* scales,
                                  bool per_row, float* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) out[i] = static_cast<float>(codes[i]) * scales[per_row ? i / row_length : 0];
}

__global__ void keep_codes_kernel(const void* x, DType type, int64_t count, int64_t channels, const float* scale,
                                  const float* offset, int8_t* codes) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const InputUnit unit{scale[i % channels], offset[i % channels]};
  codes[i] = encode_nearest(read_value(x, type, i) - unit.offset, inverse_of(unit), 127);
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
  OCTET_LAUNCH((absmax_kernel<Values>), walk_grid(rows, row_length), dim3(threads), stream, values, row_length, ranges);
}
template <class Values>
void launch_histogram(const Values& values, int64_t count, Probe probe, Stream stream) {
  OCTET_LAUNCH((histogram_kernel<Values>), walk_grid(1, count), dim3(threads), stream, values, count, probe.histogram,
               probe.sample);
}
template <class Values>
void launch_encode(const Values& values, int64_t rows, int64_t row_length, const StepKey& key, const Sink& sink,
                   Stream stream) {
  OCTET_LAUNCH((encode_kernel<Values>), walk_grid(rows, row_length), dim3(threads), stream, values, row_length, key,
               sink);
}
#define OCTET_INSTANTIATE(Values)                                                   \
  template void launch_absmax(const Values&, int64_t, int64_t, ClipRange*, Stream); \
  template void launch_histogram(const Values&, int64_t, Probe, Stream);            \
  template void launch_encode(const Values&, int64_t, int64_t, const StepKey&, const Sink&, Stream);
OCTET_INSTANTIATE(PlainValues)
OCTET_INSTANTIATE(AffineForwardValues)
OCTET_INSTANTIATE(AffineBackwardValues)

int64_t affine_partial_floats(int64_t elements, int64_t channels) {
  const int64_t chunk = affine_chunk(channels);
  return (elements + chunk - 1) / chunk * 2 * affine_period(channels);
}

void launch_affine_reduce(const AffineBackwardValues& values, const float* mean, int64_t count, float* partial,
                          double* chunks, double* sums, Stream stream) {
  const int64_t channels = values.channels, period = affine_period(channels), chunk = affine_chunk(channels);
  const int64_t rows = (count + chunk - 1) / chunk;
  OCTET_LAUNCH(reduce_chunks, dim3(static_cast<unsigned>(rows), blocks_for(period, columns)), dim3(columns), stream,
               values, mean, count, chunk, period, partial);
  OCTET_LAUNCH(reduce_columns, dim3(blocks_for(rows * 2 * channels, threads)), dim3(threads), stream, partial, rows * 2,
               period, channels, chunks);
  OCTET_LAUNCH(reduce_rows, dim3(blocks_for(2 * channels, columns)), dim3(columns), stream, chunks, rows, 2 * channels,
               sums);
}

void launch_dequantize(const int8_t* codes, int64_t rows, int64_t row_length, const float* scales, bool per_row,
                       float* out, Stream stream) {
  const int64_t count = rows * row_length;
  OCTET_LAUNCH(dequantize_kernel, dim3(blocks_for(count, threads)), dim3(threads), stream, codes, count, row_length,
               scales, per_row, out);
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
