// Photographs as a network reads them: random or middle crops of one size.
#pragma once
#include "src/data/augment/augmentation.h"
#include "src/data/images/open_image.h"
#include "src/data/images/raster.h"
#include "src/data/images/resize.h"
#include "src/data/loader.h"

namespace octet {

class Crops {
 public:
  // augment: what training does beside random crops. middle: evaluation resizes the image so that the square it reads
  // is this share of the shorter side: 256 for the middle 224 x 224 by default.
  explicit Crops(const Config::Data&, const Config::Augment& augment = {}, double middle = 224.0 / 256);
  ImageShape shape() const { return {side_, side_, 3}; }
  // Writes a crop of sample `index` as bytes. training: a random crop that may be mirrored, as Dataset::read().
  // Throws BadImage.
  void write(int64_t index, bool training, uint64_t seed, int64_t epoch, const OpenedImage&, uint8_t* pixels) const;
  // The largest scale at which write() decodes an image, by its size.
  std::function<double(ImageSize)> largest_scale(bool training) const;

 private:
  int side_;
  double middle_;
  bool augment_;
  Augmentation augmentation_;
};

// The shorter side of an image of which evaluation reads the middle side x side pixels.
int64_t shorter_side(int64_t side, double middle = 224.0 / 256);

// The part of `image` that shows rectangle `crop` of the full image, which is width x height; resized to side x side.
// `image` may be a smaller decoding of it.
Raster resized_crop(const Raster& image, int64_t width, int64_t height, const PixelRect& crop, int side);

}  // namespace octet
