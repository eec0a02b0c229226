#include "src/data/augment/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/shared/math.h"
#include "kernels/shared/pixels.h"
#include "src/data/draws.h"

namespace octet {
namespace {

// From Beta(alpha, alpha), by Johnk's method: with u and v uniform, x = u^(1/alpha) and y = v^(1/alpha), the share is
// x / (x + y) where x + y <= 1. In logarithms, since x and y may be too small for a double.
float share_of_beta(Draws& draws, double alpha) {
  const auto log_power = [&] { return natural_log((static_cast<double>(draws.bits()) + 0.5) * 0x1p-32) / alpha; };
  for (;;) {
    const double x = log_power(), y = log_power();
    if (exponential(x) + exponential(y) <= 1) return static_cast<float>(1 / (1 + exponential(y - x)));
  }
}

}  // namespace

float mixup_share(uint64_t seed, int64_t epoch, int64_t index, double alpha) {
  Draws draws(seed, epoch, DrawStream::mixup, index);
  return share_of_beta(draws, alpha);
}

void mix_pixels(float* pixels, std::span<const float> others, float share) {
  for (size_t i = 0; i < others.size(); ++i) pixels[i] = share * pixels[i] + (1 - share) * others[i];
}

Cut cut_around(int64_t x, int64_t y, double share, int64_t height, int64_t width) {
  const double half = 0.5 * std::sqrt(1 - share);
  const auto across = static_cast<int64_t>(half * static_cast<double>(width)),
             down = static_cast<int64_t>(half * static_cast<double>(height));
  return {.left = std::max<int64_t>(x - across, 0),
          .top = std::max<int64_t>(y - down, 0),
          .right = std::min(x + across, width),
          .bottom = std::min(y + down, height)};
}

std::optional<Cut> drawn_cut(uint64_t seed, int64_t epoch, int64_t index, double mixup, double cutmix, int64_t height,
                             int64_t width) {
  if (cutmix == 0) return {};
  Draws draws(seed, epoch, DrawStream::cutmix, index);
  const bool other = draws.chance(0.5f);  // drawn in any case, so that mixup moves no rectangle
  if (mixup > 0 && other) return {};
  const double share = share_of_beta(draws, cutmix);
  const int64_t x = draws.below(static_cast<uint32_t>(width)), y = draws.below(static_cast<uint32_t>(height));
  return cut_around(x, y, share, height, width);
}

float cut_pixels(uint8_t* pixels, const uint8_t* others, const Cut& cut, int64_t height, int64_t width) {
  const int64_t columns = cut.right - cut.left, rows = cut.bottom - cut.top;
  for (int64_t y = cut.top; y < cut.bottom; ++y) {
    const int64_t at = (y * width + cut.left) * pixel_channels;
    memcpy(pixels + at, others + at, static_cast<size_t>(columns * pixel_channels));
  }
  return static_cast<float>(1 - static_cast<double>(columns * rows) / static_cast<double>(height * width));
}

}  // namespace octet
