// What the affine step computes once for each channel.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/clip_range.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/values.h"

namespace octet::cuda {

// Of one call, for x's numbers in the units given by scale and offset, (channels) each or null for 1 and 0.
struct ChannelInputs {
  AffineProblem problem;
  Moments moments;
  AffineParameters parameters;
  const float *scale = nullptr, *offset = nullptr;
};
// affine_coefficients.cu. a, b, mean: (channels) each. The held range of what is encoded is completed, too.
void launch_affine_coefficients(const ChannelInputs&, const HeldRange&, float* a, float* b, Stream);
void launch_means(const ChannelInputs&, float* mean, Stream);
// The unit of each channel between its extremes.
void launch_units(Moments, int64_t channels, float* scale, float* offset, Stream);
// The range of activation(a x + b) from the extremes of x.
void launch_affine_extremes(Activation, int64_t channels, const float* a, const float* b, Moments, uint32_t* largest,
                            Stream);
// sums: what launch_affine_reduce wrote, or null for zeros.
void launch_affine_gradients(const ChannelInputs&, const HeldRange&, const double* sums, float* A, float* B, float* C,
                             Into d_gamma, Into d_beta, Stream);

// affine_reduce.cu: for each channel the sums of dz and of dz (x - mean), (2, channels) doubles. mean: null for zeros.
// partial and chunks: room for affine_partial_floats() floats and as many doubles.
int64_t affine_partial_floats(int64_t elements, int64_t channels);
void launch_affine_reduce(const AffineBackwardValues&, const float* mean, int64_t count, float* partial, double* chunks,
                          double* sums, Stream);

}  // namespace octet::cuda
