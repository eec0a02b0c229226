// The moments of a real-valued convolution's output, by channel.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/scratch.h"

namespace octet::cpu {

// values: of the shape, f32. Least and largest values only where moments asks for them.
void measure_moments(int threads, const float* values, Shape, Moments, Scratch&);

}  // namespace octet::cpu
