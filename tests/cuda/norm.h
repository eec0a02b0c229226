// The statistics and parameters of a norm.
#pragma once
#include "tests/cuda/compare.h"

namespace octet::test {

struct Norm {
  OwnedMoments moments;
  OwnedTensor gamma, beta;
  explicit Norm(int64_t channels)
      : moments(channels), gamma(random_real({1, 1, 1, channels}, 21)), beta(random_real({1, 1, 1, channels}, 22)) {
    for (int64_t c = 0; c < channels; ++c) {
      moments.mean.f32()[c] = 0.1f * random_number(23, c);
      moments.variance.f32()[c] = 0.5f + 0.2f * random_number(24, c);
      moments.min.f32()[c] = -1;
      moments.max.f32()[c] = 1;
    }
  }
  AffineParameters parameters(Place& place) const {
    return {place.copy(gamma.view()).f32(), place.copy(beta.view()).f32()};
  }
};

}  // namespace octet::test
