// What is computed once for each channel or tensor: affine coefficients and gradients, clips and scales.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

// One thread. A range that is not held knows its largest value.
__global__ void finish_range(ClipRange* range, Range kind, const float* held, int qmax, float* scale) {
  const float clip = kind == Range::held ? *held : float_of(range->largest);
  range->clip = clip;
  range->inverse_scale = inverse_scale_of(clip, qmax);
  *scale = scale_of(clip, qmax);
}

__device__ __forceinline__ InputUnit unit_of(const float* scale, const float* offset, int64_t channel) {
  return scale != nullptr ? InputUnit{scale[channel], offset[channel]} : InputUnit{};
}

__global__ void coefficients(const __grid_constant__ AffineProblem problem, const __grid_constant__ Moments moments,
                             const __grid_constant__ AffineParameters parameters, const float* scale,
                             const float* offset, float* a, float* b, float* mean) {
  const int64_t channel = thread_index();
  if (channel >= problem.shape.c) return;
  const InputUnit unit = unit_of(scale, offset, channel);
  const AffineCoefficients own = in_unit(affine_coefficients(problem, moments, parameters, channel), unit);
  a[channel] = own.a;
  b[channel] = own.b;
  mean[channel] = mean_in_unit(problem, moments, channel, unit);
}

__global__ void units(const __grid_constant__ Moments moments, int64_t channels, float* scale, float* offset) {
  const int64_t channel = thread_index();
  if (channel >= channels) return;
  const InputUnit unit = unit_between(moments.min[channel], moments.max[channel]);
  scale[channel] = unit.scale;
  offset[channel] = unit.offset;
}

__global__ void extremes(Activation activation, int64_t channels, const float* a, const float* b, const float* min,
                         const float* max, uint32_t* largest_bits) {
  const int64_t channel = thread_index();
  if (channel >= channels) return;
  float largest = 0;
  for (int i = 0; i < 2; ++i) {
    const float value = activate(activation, a[channel] * (i == 0 ? min : max)[channel] + b[channel]);
    const float magnitude = float_of(bits_of(value) & 0x7FFFFFFFu);
    largest = magnitude > largest ? magnitude : largest;
  }
  atomicMax(largest_bits, bits_of(largest));
}

__device__ __forceinline__ void write_sum(float* to, bool add, int64_t channel, double sum) {
  if (to == nullptr) return;
  to[channel] = add ? to[channel] + static_cast<float>(sum) : static_cast<float>(sum);
}

__global__ void gradients(const __grid_constant__ AffineProblem problem, const __grid_constant__ Moments moments,
                          const __grid_constant__ AffineParameters parameters, const float* scale, const float* offset,
                          const double* sums, float* A, float* B, float* C, float* d_gamma, bool add_gamma,
                          float* d_beta, bool add_beta) {
  const int64_t channel = thread_index();
  if (channel >= problem.shape.c) return;
  const double sum_dz = sums != nullptr ? sums[channel] : 0.0;
  double sum_dz_normalized = sums != nullptr ? sums[problem.shape.c + channel] : 0.0;
  const InputUnit unit = unit_of(scale, offset, channel);
  if (problem.normalize) sum_dz_normalized *= inverse_deviation(problem, moments, channel) * unit.scale;
  const AffineGradient own = affine_gradient(problem, moments, parameters, channel, sum_dz, sum_dz_normalized, unit);
  A[channel] = own.A;
  B[channel] = own.B;
  C[channel] = own.C;
  write_sum(d_gamma, add_gamma, channel, sum_dz_normalized);
  write_sum(d_beta, add_beta, channel, sum_dz);
}

}  // namespace

void launch_finish_range(ClipRange* range, Range kind, const float* held, int qmax, float* scale, Stream stream) {
  OCTET_LAUNCH(finish_range, dim3(1), dim3(1), stream, range, kind, held, qmax, scale);
}

void launch_affine_coefficients(const AffineProblem& problem, Moments moments, AffineParameters parameters,
                                const float* scale, const float* offset, float* a, float* b, float* mean,
                                Stream stream) {
  OCTET_LAUNCH_EACH(coefficients, problem.shape.c, threads, stream, problem, moments, parameters, scale, offset, a, b,
                    mean);
}

void launch_units(Moments moments, int64_t channels, float* scale, float* offset, Stream stream) {
  OCTET_LAUNCH_EACH(units, channels, threads, stream, moments, channels, scale, offset);
}

void launch_affine_extremes(Activation activation, int64_t channels, const float* a, const float* b, Moments moments,
                            uint32_t* largest, Stream stream) {
  OCTET_LAUNCH_EACH(extremes, channels, threads, stream, activation, channels, a, b, moments.min, moments.max, largest);
}

void launch_affine_gradients(const AffineProblem& problem, Moments moments, AffineParameters parameters,
                             const float* scale, const float* offset, const double* sums, float* A, float* B, float* C,
                             Into d_gamma, Into d_beta, Stream stream) {
  OCTET_LAUNCH_EACH(gradients, problem.shape.c, threads, stream, problem, moments, parameters, scale, offset, sums, A,
                    B, C, d_gamma.tensor.f32(), d_gamma.add, d_beta.tensor.f32(), d_beta.add);
}

}  // namespace octet::cuda
