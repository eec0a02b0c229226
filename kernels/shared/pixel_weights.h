// The integer weights of a convolution of bytes (pixels.h). What rounding the weights of a tap's colors costs is given
// to the tap's weight of `inside`, as it is for a pixel of the mean color; and what rounding that costs is given to the
// next tap. So a whole window errs with its colors' distance from the mean alone, as a sum in f32 of normalized pixels.
#pragma once
#include "kernels/shared/pixels.h"

namespace octet {

// So much may a weight of `inside` gain from colors and carry.
inline constexpr int pixel_weight_reserve = 4;

// The factor of a channel, from its largest |e|; NaN if that is not finite.
OCTET_BOTH float pixel_weight_factor(double largest, int64_t products) {
  return largest <= 1e300 ? pixel_factor(largest, largest_pixel_weight(products) - pixel_weight_reserve) : NAN;
}
// The weights of a tap's colors; returns what its weight of `inside` is before it is rounded.
OCTET_BOTH double round_color_weights(const float* w, const PixelScale& by, float factor, int32_t* to) {
  if (!(factor > 0)) {
    for (int c = 0; c < 3; ++c) to[c] = 0;
    return 0;
  }
  const double unit = 256 / static_cast<double>(factor);
  double gained = 0;
  for (int c = 0; c < 3; ++c) {
    const double exact = pixel_weight(w, by, c) * unit, rounded = rint(exact);
    double mean = -static_cast<double>(by.shift[c]) / (255 * static_cast<double>(by.scale[c]));  // as a share of white
    mean = mean > 0 ? mean < 1 ? mean : 1 : 0;
    to[c] = static_cast<int32_t>(rounded);
    gained += (exact - rounded) * mean;
  }
  return pixel_weight(w, by, 3) * unit + gained;
}
OCTET_BOTH int32_t round_inside_weight(double exact, double& carry) {
  const double all = exact + carry, rounded = rint(all);
  carry = all - rounded;
  return static_cast<int32_t>(rounded);
}

// The weights of one output channel, (taps, 4), from its f32 weights (taps, 3); returns the factor.
OCTET_BOTH float round_pixel_weights(const float* w, int64_t taps, const PixelScale& by, int32_t* to) {
  double largest = 0, carry = 0;
  for (int64_t i = 0; i < taps * pixel_channels; ++i) {
    const double magnitude = fabs(pixel_weight(w + i / 4 * 3, by, static_cast<int>(i % 4)));
    if (!(magnitude <= largest)) largest = magnitude <= 1e300 ? magnitude : 1e308;  // not finite
  }
  const float factor = pixel_weight_factor(largest, taps * pixel_channels);
  for (int64_t tap = 0; tap < taps; ++tap, w += 3, to += pixel_channels)
    to[3] = round_inside_weight(round_color_weights(w, by, factor, to), carry);
  return factor;
}

}  // namespace octet
