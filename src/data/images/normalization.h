// The normalizations of the data sources, and of the rows of an image.
#pragma once
#include <cstdint>
#include <vector>

#include "src/config/config.h"
#include "src/normalization.h"

namespace octet {

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

constexpr Normalization of_cifar10 = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
constexpr Normalization of_drawings = {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}};

// data.mean and data.deviation; those of the data source, `own`, where the configuration has none.
Normalization normalization(const Config::Data&, Normalization own);

}  // namespace octet
