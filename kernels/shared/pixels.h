// The first layer in integers. Pixels are bytes, and their normalization is linear in them, so a convolution of
// normalized pixels is one of bytes, whose sums are exact once the weights are integers:
//   sum over taps of  w[c] (byte[c] scale[c] + inside shift[c] / 255)  =  sum of e[k] byte[k],
// with e[c] = w[c] scale[c] for the three colors, and e[3] = sum of w[c] shift[c] / 255 for the channel `inside`. The
// weights of an output channel become integers W of 24 bits, near e * 256 / factor (pixel_weights.h). Its values are
//   y = y32 * factor,  y32 = floor((sum of W byte + 128) / 256).
// The weight gradient does the same with the gradient of the output. Integer sums have no order, so that a backend may
// take them as it likes.
#pragma once
#include <cmath>

#include "kernels/shared/encode.h"

namespace octet {

// How the bytes of an image, (H, W, 4) u8, are real numbers. Its channels are red, green, blue, and `inside`: 255 where
// there is a pixel. All four are 0 where there is none, and there x is 0. x[c] = byte[c] * scale[c] + inside * shift[c]
// / 255.
struct PixelScale {
  float scale[3] = {}, shift[3] = {};
  bool operator==(const PixelScale&) const = default;
};
inline constexpr int pixel_channels = 4;

OCTET_BOTH float pixel_value(const PixelScale& by, const uint8_t* bytes, int c) {
  return bytes[3] == 0 ? 0 : static_cast<float>(bytes[c]) * by.scale[c] + by.shift[c];
}
// Of `count` pixels, three values each.
OCTET_BOTH void normalize_pixels(const PixelScale& by, const uint8_t* bytes, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i, bytes += pixel_channels, to += 3)
    for (int c = 0; c < 3; ++c) to[c] = pixel_value(by, bytes, c);
}

inline constexpr int pixel_limit = 127 * 0x10101;      // the largest number of three digits from -128 to 127
inline constexpr int64_t most_pixel_products = 512;    // of an output; so are sums of digits exact in f32, too
inline constexpr int64_t most_pixels_of_a_row = 4096;  // of the output; so many products of 12 bits fit into an int32

// The largest |W|: y32 of so many products, at most 512, fits into an int32.
OCTET_BOTH int largest_pixel_weight(int64_t products) {
  const int64_t fits = (int64_t{1} << 39) / (255 * products) - 2;
  return fits < pixel_limit ? static_cast<int>(fits) : pixel_limit;
}

// e[k] of a tap whose weights are w[0], w[1], w[2].
OCTET_BOTH double pixel_weight(const float* w, const PixelScale& by, int k) {
  if (k < 3) return static_cast<double>(w[k]) * static_cast<double>(by.scale[k]);
  double sum = 0;
  for (int c = 0; c < 3; ++c) sum += static_cast<double>(w[c]) * static_cast<double>(by.shift[c]);
  return sum / 255;
}
// The factor of a channel, from its largest |e|: never so small that |W| exceeds the limit.
OCTET_BOTH float pixel_factor(double largest, int limit) {
  const double exact = largest * 256 / limit;
  const float factor = static_cast<float>(exact);
  return static_cast<double>(factor) < exact ? float_of(bits_of(factor) + 1) : factor;
}

// The scale of a channel's gradient, from its largest magnitude as bits of a float: NaN and infinity are the largest.
// A gradient below 2^-105 everywhere counts as 0.
OCTET_BOTH float pixel_gradient_scale(uint32_t largest) {
  if (largest >= 0x7F800000u) return NAN;
  if (largest == 0) return 0;
  const double magnitude = static_cast<double>(float_of(largest)), exact = pixel_limit / magnitude;
  if (exact >= 0x1p127) return 0x1p127f;
  const float scale = static_cast<float>(exact);
  return static_cast<double>(scale) * magnitude > pixel_limit ? float_of(bits_of(scale) - 1) : scale;
}
// dw[c] of a tap from its sums of four channels.
OCTET_BOTH float pixel_gradient(const int64_t* sums, const PixelScale& by, int c, float scale) {
  if (scale == 0) return 0;
  const double color = static_cast<double>(sums[c]) * static_cast<double>(by.scale[c]);
  const double inside = static_cast<double>(sums[3]) * static_cast<double>(by.shift[c]) / 255;
  return static_cast<float>((color + inside) / static_cast<double>(scale));
}

}  // namespace octet
