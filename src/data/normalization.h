// How the bytes of a picture become the numbers that a network reads: (pixel / 255 - mean) / deviation, channel by
// channel.
#pragma once
#include <array>

#include "src/config/config.h"

namespace octet {

struct Normalization {
  std::array<float, 3> mean{}, deviation{};  // of red, green and blue, of pixel / 255

  // The number is pixel * scale + shift.
  float scale(int64_t channel) const { return 1 / (255 * deviation[channel]); }
  float shift(int64_t channel) const { return -mean[channel] / deviation[channel]; }
};

// ImageNet's, which photographs are read with; as torchvision's weights expect it.
constexpr Normalization of_photographs = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

// What the configuration names, and `own`, the data set's, for what it does not.
Normalization normalization(const Config::Data&, Normalization own);

}  // namespace octet
