// Pixels as a network reads them: red, green, blue, and 255 where there is a pixel (PixelScale).
#pragma once
#include <cstdint>
#include <cstring>

#include "kernels/shared/pixels.h"

namespace octet {

// `count` pixels of an image, from its three colors.
inline void write_pixels(const uint8_t* colors, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i, colors += 3, to += pixel_channels)
    to[0] = colors[0], to[1] = colors[1], to[2] = colors[2], to[3] = 255;
}
inline void write_no_pixels(int64_t count, uint8_t* to) { memset(to, 0, static_cast<size_t>(count * pixel_channels)); }

}  // namespace octet
