// The normalization of pixels: (pixel / 255 - mean) / deviation, for each channel.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "src/config/config.h"

namespace octet {

struct Normalization {
  std::array<float, 3> mean{}, deviation{};  // of red, green and blue, of pixel / 255

  // A normalized pixel is pixel * scale + shift.
  float scale(int64_t channel) const { return 1 / (255 * deviation[channel]); }
  float shift(int64_t channel) const { return -mean[channel] / deviation[channel]; }
};

// Normalizes rows of pixels. Has factors for each value of a row, so that the compiler can vectorize the loop over it.
class RowNormalization {
 public:
  RowNormalization(const Normalization& of, int64_t width) {
    for (int64_t i = 0; i < 3 * width; ++i) scale_.push_back(of.scale(i % 3)), shift_.push_back(of.shift(i % 3));
  }
  void operator()(const uint8_t* from, float* to) const {
    const float *scale = scale_.data(), *shift = shift_.data();
    for (size_t i = 0; i < scale_.size(); ++i) to[i] = static_cast<float>(from[i]) * scale[i] + shift[i];
  }

 private:
  std::vector<float> scale_, shift_;
};

// ImageNet's normalization, for photographs. torchvision's weights expect it.
constexpr Normalization of_photographs = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

constexpr Normalization of_cifar10 = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
constexpr Normalization of_drawings = {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}};

// data.mean and data.deviation; those of the data source, `own`, where the configuration has none.
Normalization normalization(const Config::Data&, Normalization own);

}  // namespace octet
