#include "src/data/augment/mixup.h"

#include "kernels/shared/math.h"
#include "src/data/draws.h"

namespace octet {

// Johnk's method: with u and v uniform, x = u^(1/alpha) and y = v^(1/alpha), the share is x / (x + y) where x + y <= 1.
// In logarithms, since x and y may be too small for a double.
float mixup_share(uint64_t seed, int64_t epoch, int64_t index, double alpha) {
  Draws draws(seed, epoch, DrawStream::mixup, index);
  const auto log_power = [&] { return natural_log((static_cast<double>(draws.bits()) + 0.5) * 0x1p-32) / alpha; };
  for (;;) {
    const double x = log_power(), y = log_power();
    if (exponential(x) + exponential(y) <= 1) return static_cast<float>(1 / (1 + exponential(y - x)));
  }
}

void mix_pixels(float* pixels, std::span<const float> others, float share) {
  for (size_t i = 0; i < others.size(); ++i) pixels[i] = share * pixels[i] + (1 - share) * others[i];
}

}  // namespace octet
