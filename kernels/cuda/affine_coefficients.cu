// What the affine step computes once for each channel: coefficients, units and extremes.
#include "kernels/cuda/affine.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/encode.h"

namespace octet::cuda {
namespace {

constexpr int threads = 64;

__global__ void coefficients(const __grid_constant__ ChannelInputs of, float* a, float* b) {
  const int64_t channel = thread_index();
  if (channel >= of.problem.shape.c) return;
  const AffineCoefficients own = affine_coefficients(of.problem, of.moments, of.parameters, channel);
  a[channel] = own.a;
  b[channel] = own.b;
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

}  // namespace

void launch_affine_coefficients(const ChannelInputs& of, float* a, float* b, Stream stream) {
  OCTET_LAUNCH_EACH(coefficients, of.problem.shape.c, threads, stream, of, a, b);
}

void launch_units(Moments moments, int64_t channels, float* scale, float* offset, Stream stream) {
  OCTET_LAUNCH_EACH(units, channels, threads, stream, moments, channels, scale, offset);
}

void launch_affine_extremes(Activation activation, int64_t channels, const float* a, const float* b, Moments moments,
                            uint32_t* largest, Stream stream) {
  OCTET_LAUNCH_EACH(extremes, channels, threads, stream, activation, channels, a, b, moments.min, moments.max, largest);
}

}  // namespace octet::cuda
