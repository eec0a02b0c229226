// Moments of a convolution of codes, from exact integer sums: so no order of summation shows.
#pragma once
#include "kernels/shared/encode.h"

namespace octet {

// Of `count` sums s of products: sum(s), and sum(s^2) = low + 2^32 high. Below 2^31 sums of less than 2^31 each fit.
struct SquareSum {
  uint64_t low = 0, high = 0;
};
// The values are s * factor, not rounded. n sum(s^2) - sum(s)^2 is exact in 128 bits.
OCTET_BOTH void exact_moments(int64_t count, int64_t sum, SquareSum squares, float factor, float* mean,
                              float* variance) {
  const auto total = static_cast<unsigned __int128>(squares.high) << 32;
  const auto magnitude =
      static_cast<unsigned __int128>(sum < 0 ? -static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum));
  const unsigned __int128 spread =
      (total + squares.low) * static_cast<uint64_t>(count) - magnitude * magnitude;  // >= 0, as (sum s)^2 <= n sum(s^2)
  const double number = static_cast<double>(static_cast<uint64_t>(spread >> 64)) * 0x1p64 +
                        static_cast<double>(static_cast<uint64_t>(spread));
  const double n = static_cast<double>(count), unit = static_cast<double>(factor);
  *mean = static_cast<float>(static_cast<double>(sum) / n * unit);
  *variance = static_cast<float>(number / (n * n) * (unit * unit));
}

}  // namespace octet
