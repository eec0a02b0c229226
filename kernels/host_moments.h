// Moments of each channel of f32 values in the host's memory, for policies that compute there. The order of the sums is
// the one that the CPU backend uses behind convolutions of a library. It gives the same bits for any number of threads.
#pragma once
#include "kernels/backend.h"

namespace octet {

// Writes minimum and maximum only if their pointers are not null.
void measure_host_moments(int threads, const float* values, Shape, Moments);

}  // namespace octet
