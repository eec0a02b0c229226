// What the affine step computes once for each channel.
#pragma once
#include "kernels/backend.h"
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
// affine_coefficients.cu. a, b: (channels) each.
void launch_affine_coefficients(const ChannelInputs&, float* a, float* b, Stream);
// The unit of each channel between its extremes.
void launch_units(Moments, int64_t channels, float* scale, float* offset, Stream);
// The range of activation(a x + b) from the extremes of x.
void launch_affine_extremes(Activation, int64_t channels, const float* a, const float* b, Moments, uint32_t* largest,
                            Stream);
// affine_reduce.cu. The coefficients of the gradient of x, (channels) each. d_gamma, d_beta: optional.
struct AffineGradients {
  ChannelInputs of;
  float *A, *B, *C;
  RealOutput d_gamma = {}, d_beta = {};
};
void launch_affine_gradients(const AffineGradients&, Stream);  // where sums do not matter
// From the sums of dz and of dz x. of_groups: room for (affine_groups(), 2, channels) doubles. tickets: one for each
// four channels; 0 before and afterwards.
int64_t affine_groups(int64_t pixels);
// The same where a data gradient summed over chunks, see NormOutput.
void launch_add_chunks(const float* of_chunks, int64_t pixels, double* of_groups, unsigned* tickets,
                       const AffineGradients&, Stream);
void launch_affine_reduce(const AffineBackwardValues&, int64_t pixels, double* of_groups, unsigned* tickets,
                          const AffineGradients&, Stream);

}  // namespace octet::cuda
