// Fixed-point sums of real numbers. The order in which integers are added does not matter, so the sum over images,
// ranks and threads has the same bits for every layout of a job.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/shared/random.h"

namespace octet {

// A number is rounded to the nearest multiple of 2^-40, ties to even. 4096 numbers below the limit fit into an int64.
inline constexpr float fixed_limit = 2048;
OCTET_BOTH bool fits_fixed(float x) { return x > -fixed_limit && x < fixed_limit; }  // false for NaN
OCTET_BOTH int64_t to_fixed(float x) { return static_cast<int64_t>(std::rint(static_cast<double>(x) * 0x1p40)); }
OCTET_BOTH float from_fixed(int64_t sum) { return static_cast<float>(static_cast<double>(sum) * 0x1p-40); }

// Rounds to a multiple of 2^-32, ties to even. Sums of such numbers are exact in double up to 2^21.
OCTET_BOTH double on_grid(double x) { return std::rint(x * 0x1p32) * 0x1p-32; }

}  // namespace octet
