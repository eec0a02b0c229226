// What the affine step computes once for each channel: coefficients, units, extremes and gradients.
#include "kernels/cuda/affine.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

__device__ __forceinline__ InputUnit unit_of(const ChannelInputs& of, int64_t channel) {
  return of.scale != nullptr ? InputUnit{of.scale[channel], of.offset[channel]} : InputUnit{};
}

__global__ void coefficients(const __grid_constant__ ChannelInputs of, const __grid_constant__ HeldRange held, float* a,
                             float* b) {
  const int64_t channel = thread_index();
  if (channel == 0) complete(held);
  if (channel >= of.problem.shape.c) return;
  const AffineCoefficients own = affine_coefficients(of.problem, of.moments, of.parameters, channel);
  a[channel] = own.a;
  b[channel] = own.b;
}

__global__ void means(const __grid_constant__ ChannelInputs of, float* mean) {
  const int64_t channel = thread_index();
  if (channel < of.problem.shape.c) mean[channel] = mean_in_unit(of.problem, of.moments, channel, unit_of(of, channel));
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

__global__ void gradients(const __grid_constant__ ChannelInputs of, const __grid_constant__ HeldRange held,
                          const double* sums, float* A, float* B, float* C, const __grid_constant__ RealOutput d_gamma,
                          const __grid_constant__ RealOutput d_beta) {
  const int64_t channel = thread_index(), channels = of.problem.shape.c;
  if (channel == 0) complete(held);
  if (channel >= channels) return;
  const double sum_dz = sums != nullptr ? sums[channel] : 0.0;
  double sum_dz_normalized = sums != nullptr ? sums[channels + channel] : 0.0;
  const InputUnit unit = unit_of(of, channel);
  if (of.problem.normalize) sum_dz_normalized *= inverse_deviation(of.problem, of.moments, channel) * unit.scale;
  const AffineGradient own =
      affine_gradient(of.problem, of.moments, of.parameters, channel, sum_dz, sum_dz_normalized, unit);
  A[channel] = own.A;
  B[channel] = own.B;
  C[channel] = own.C;
  if (d_gamma.data != nullptr) write_real(d_gamma, channel, static_cast<float>(sum_dz_normalized));
  if (d_beta.data != nullptr) write_real(d_beta, channel, static_cast<float>(sum_dz));
}

}  // namespace

void launch_affine_coefficients(const ChannelInputs& of, const HeldRange& held, float* a, float* b, Stream stream) {
  OCTET_LAUNCH_EACH(coefficients, of.problem.shape.c, threads, stream, of, held, a, b);
}
void launch_means(const ChannelInputs& of, float* mean, Stream stream) {
  OCTET_LAUNCH_EACH(means, of.problem.shape.c, threads, stream, of, mean);
}

void launch_units(Moments moments, int64_t channels, float* scale, float* offset, Stream stream) {
  OCTET_LAUNCH_EACH(units, channels, threads, stream, moments, channels, scale, offset);
}

void launch_affine_extremes(Activation activation, int64_t channels, const float* a, const float* b, Moments moments,
                            uint32_t* largest, Stream stream) {
  OCTET_LAUNCH_EACH(extremes, channels, threads, stream, activation, channels, a, b, moments.min, moments.max, largest);
}

void launch_affine_gradients(const ChannelInputs& of, const HeldRange& held, const double* sums, float* A, float* B,
                             float* C, Into d_gamma, Into d_beta, Stream stream) {
  OCTET_LAUNCH_EACH(gradients, of.problem.shape.c, threads, stream, of, held, sums, A, B, C, real_output(d_gamma),
                    real_output(d_beta));
}

}  // namespace octet::cuda
