// What the convolutions of the reference have in common.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/operations.h"
#include "kernels/shared/exact_moments.h"

namespace octet::reference {

// visit(x index, w index, y index) for every product.
template <class Visit>
void for_each_product(const ConvProblem& p, Visit visit) {
  const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups;
  for (int64_t n = 0; n < p.y.n; ++n) {
    for (int64_t row = 0; row < p.y.h; ++row) {
      for (int64_t column = 0; column < p.y.w; ++column) {
        for (int64_t output = 0; output < p.y.c; ++output) {
          const int64_t y = ((n * p.y.h + row) * p.y.w + column) * p.y.c + output;
          for (int kernel_row = 0; kernel_row < p.kernel_h; ++kernel_row) {
            const int64_t x_row = row * p.stride_h - p.pad_h + kernel_row * p.dilation_h;
            if (x_row < 0 || x_row >= p.x.h) continue;
            for (int kernel_column = 0; kernel_column < p.kernel_w; ++kernel_column) {
              const int64_t x_column = column * p.stride_w - p.pad_w + kernel_column * p.dilation_w;
              if (x_column < 0 || x_column >= p.x.w) continue;
              const int64_t x = ((n * p.x.h + x_row) * p.x.w + x_column) * p.x.c + output / outputs * inputs;
              const int64_t w = ((output * p.kernel_h + kernel_row) * p.kernel_w + kernel_column) * inputs;
              for (int64_t input = 0; input < inputs; ++input) visit(x + input, w + input, y);
            }
          }
        }
      }
    }
  }
}

// Moments of exact sums, (pixels, channels). The values of a channel are its sums times scale_of(channel).
template <class ScaleOf>
void measure_exactly(const std::vector<int64_t>& sums, int64_t channels, ScaleOf scale_of, Moments moments) {
  const int64_t count = static_cast<int64_t>(sums.size()) / channels;
  for (int64_t channel = 0; channel < channels; ++channel) {
    const float scale = scale_of(channel);
    int64_t total = 0, low = std::numeric_limits<int64_t>::max(), high = -low;
    SquareSum squares;
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      const int64_t sum = sums[pixel * channels + channel];
      total += sum;
      squares.low += static_cast<uint64_t>(sum * sum) % (uint64_t{1} << 32);
      squares.high += static_cast<uint64_t>(sum * sum) >> 32;
      low = std::min(low, sum), high = std::max(high, sum);
    }
    exact_moments(count, total, squares, scale, &moments.mean[channel], &moments.variance[channel]);
    if (moments.min != nullptr) moments.min[channel] = static_cast<float>(low) * scale;
    if (moments.max != nullptr) moments.max[channel] = static_cast<float>(high) * scale;
  }
}

}  // namespace octet::reference
