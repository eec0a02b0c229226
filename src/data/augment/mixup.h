// Mixup (Zhang et al., "mixup: Beyond empirical risk minimization", ICLR 2018): an image becomes share x image + (1 -
// share) x another image, and its loss is mixed in the same way. Each image has a share of its own.
#pragma once
#include <cstdint>
#include <span>

namespace octet {

// From the distribution Beta(alpha, alpha), a function of (seed, epoch, index). alpha: above 0.
float mixup_share(uint64_t seed, int64_t epoch, int64_t index, double alpha);
void mix_pixels(float* pixels, std::span<const float> others, float share);

}  // namespace octet
