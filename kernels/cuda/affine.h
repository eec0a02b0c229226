// What the affine step computes once for each channel.
#pragma once
#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/values.h"

namespace octet::cuda {

// affine_coefficients.cu. a, b: (channels) each.
void launch_affine_coefficients(const ChannelInputs&, float* a, float* b, Stream);
// The unit of each channel between its extremes.
void launch_units(Moments, int64_t channels, float* scale, float* offset, Stream);
// The range of activation(a x + b) from the extremes of x.
void launch_affine_extremes(Activation, int64_t channels, const float* a, const float* b, Moments, uint32_t* largest,
                            Stream);
// affine_reduce.cu
void launch_affine_gradients(const AffineGradients&, Stream);  // where sums do not matter
// From the sums of dz and of dz x. of_groups: room for (norm_groups_of(pixels), 2, channels) doubles. tickets: one for
// each four channels; 0 before and afterwards.
void launch_affine_reduce(const AffineBackwardValues&, int64_t pixels, double* of_groups, unsigned* tickets,
                          const AffineGradients&, Stream);

}  // namespace octet::cuda
