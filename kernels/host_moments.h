// Moments by channel of f32 values in the host's memory, for policies that compute there. The sums are those of the CPU
// backend's convolutions: the same bits for any number of threads.
#pragma once
#include "kernels/backend.h"

namespace octet {

// Least and largest values only where the moments ask for them.
void measure_host_moments(int threads, const float* values, Shape, Moments);

}  // namespace octet
