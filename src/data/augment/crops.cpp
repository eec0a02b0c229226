#include "src/data/augment/crops.h"

#include <algorithm>
#include <cmath>

#include "kernels/shared/math.h"
#include "src/data/draws.h"
#include "src/data/images/pixel_bytes.h"
#include "src/data/images/resize.h"

namespace octet {

namespace {

// A rectangle of the full image: 8 % to 100 % of its area, ratio 3/4 to 4/3, anywhere in it. Ten tries, then the
// largest middle part of a ratio in that range. As torchvision.transforms.RandomResizedCrop.
PixelRect random_crop(Draws& draws, int64_t width, int64_t height) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = static_cast<double>(width * height) * draws.uniform(0.08f, 1);
    const double ratio = exponential(draws.uniform(-0.28768207f, 0.28768207f));  // 3/4 to 4/3
    const int64_t w = std::lround(std::sqrt(area * ratio)), h = std::lround(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int64_t y = draws.below(static_cast<uint32_t>(height - h + 1)),
                  x = draws.below(static_cast<uint32_t>(width - w + 1));
    return PixelRect{static_cast<int>(x), static_cast<int>(y), static_cast<int>(w), static_cast<int>(h)};
  }
  const int64_t w = std::clamp<int64_t>(std::lround(height * (4.0 / 3)), 1, width);
  const int64_t h = std::clamp<int64_t>(std::lround(width * (4.0 / 3)), 1, height);
  return PixelRect{static_cast<int>(width - w) / 2, static_cast<int>(height - h) / 2, static_cast<int>(w),
                   static_cast<int>(h)};
}

}  // namespace

Crops::Crops(const Config::Data& data, const Config::Augment& augment, double middle)
    : side_(static_cast<int>(image_side(data))), middle_(middle), augment_(data.augment), augmentation_(augment) {}

void Crops::write(int64_t index, bool training, uint64_t seed, int64_t epoch, const OpenedImage& image,
                  uint8_t* pixels) const {
  Raster picture;
  bool flips = false;
  if (training && augment_) {
    Draws draws(seed, epoch, DrawStream::augment, index);
    const auto [height, width] = image.size;
    const PixelRect crop = random_crop(draws, width, height);
    const Raster decoded = image.decode(std::max(1.0 * side_ / crop.width, 1.0 * side_ / crop.height));
    picture = resized_crop(decoded, width, height, crop, side_);
    flips = draws.bits() >> 31;
    if (flips) picture = mirrored(picture);
  } else {
    const Raster whole = image.decode(1);
    const Size64 size = resized_size(size_of(whole), shorter_side(side_, middle_));
    picture = resized_part(whole, size, middle_square(size, side_));
  }
  if (training && augmentation_.changes_bytes()) {
    if (!flips) picture = picture.copy();  // it may be a part of the data set
    augmentation_.change({side_, side_, {picture.data, picture.bytes().size()}}, seed, epoch, index);
  }
  for (int y = 0; y < side_; ++y) write_pixels(picture.ptr(y), side_, pixels + int64_t{pixel_channels} * side_ * y);
  if (training) augmentation_.erase(pixels, side_, side_, seed, epoch, index);
}

std::function<double(ImageSize)> Crops::largest_scale(bool training) const {
  if (!training || !augment_) return [](ImageSize) { return 1.0; };
  // The smallest crop has 0.08 of the area, and a ratio of 3/4.
  return [side = side_](ImageSize of) {
    return std::min(1.0, side / std::sqrt(0.08 * 0.75 * static_cast<double>(of.height * of.width)));
  };
}

int64_t shorter_side(int64_t side, double middle) { return std::lround(static_cast<double>(side) / middle); }

Raster resized_crop(const Raster& image, int64_t full_width, int64_t full_height, const PixelRect& crop, int side) {
  // The same rectangle in the decoded size.
  const double across = 1.0 * image.cols / static_cast<double>(full_width);
  const double down = 1.0 * image.rows / static_cast<double>(full_height);
  const int x = std::min(static_cast<int>(std::lround(crop.x * across)), image.cols - 1);
  const int y = std::min(static_cast<int>(std::lround(crop.y * down)), image.rows - 1);
  const int width = std::clamp(static_cast<int>(std::lround(crop.width * across)), 1, image.cols - x);
  const int height = std::clamp(static_cast<int>(std::lround(crop.height * down)), 1, image.rows - y);
  return resized(image.part({x, y, width, height}), {side, side});
}

}  // namespace octet
