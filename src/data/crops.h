// Photographs as a network reads them: random or middle crops of one size, normalized.
#pragma once
#include <functional>
#include <opencv2/core.hpp>

#include "src/data/loader.h"
#include "src/data/normalization.h"

namespace octet {

class Crops {
 public:
  // own: the normalization where the configuration has none. middle: the side of the square that evaluation reads, as a
  // share of the image's shorter side. By default that which remains when the shorter side is resized to 256 and the
  // middle 224 x 224 are cut out.
  explicit Crops(const Config::Data&, Normalization own = of_photographs, double middle = 224.0 / 256);
  ImageShape shape() const { return {side_, side_, 3}; }
  // Writes a crop of sample `index`, an image of width x height pixels, as f32 HWC. decode(scale) returns its pixels,
  // or a smaller decoding that is at least `scale` times as large. training: a random crop that may be mirrored, as
  // Dataset::read().
  void write(int64_t index, bool training, uint64_t seed, int64_t epoch, int64_t width, int64_t height,
             const std::function<cv::Mat(double scale)>& decode, float* pixels) const;

 private:
  int side_;
  Normalization normalization_;
  double middle_;
  bool augment_;
};

// The part of `image` that shows rectangle `crop` of the full image, which is width x height; resized to side x side.
// `image` may be a smaller decoding of it.
cv::Mat resized_crop(const cv::Mat& image, int64_t width, int64_t height, const cv::Rect& crop, int side);

}  // namespace octet
