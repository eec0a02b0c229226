// The normalization of pixels: (pixel / 255 - mean) / deviation, for each channel.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/shared/pixels.h"

namespace octet {

struct Normalization {
  std::array<float, 3> mean{}, deviation{};  // of red, green and blue, of pixel / 255

  // A normalized pixel is pixel * scale + shift.
  float scale(int64_t channel) const { return 1 / (255 * deviation[channel]); }
  float shift(int64_t channel) const { return -mean[channel] / deviation[channel]; }
  PixelScale pixels() const { return {{scale(0), scale(1), scale(2)}, {shift(0), shift(1), shift(2)}}; }
  bool operator==(const Normalization&) const = default;
};

// ImageNet's normalization, for photographs. torchvision's weights expect it, but those of InceptionV3.
constexpr Normalization of_photographs = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

}  // namespace octet
