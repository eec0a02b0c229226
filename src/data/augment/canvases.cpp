#include "src/data/augment/canvases.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace octet {
namespace {

constexpr int64_t step = 32;  // the stride of the coarsest level that later levels only halve

// Each side times numerator / denominator, rounded down.
ImageSize times(ImageSize image, int64_t numerator, int64_t denominator) {
  return {std::max<int64_t>(1, image.height * numerator / denominator),
          std::max<int64_t>(1, image.width * numerator / denominator)};
}

int64_t rounded_up(int64_t side) { return (side + step - 1) / step * step; }

std::vector<ImageShape> named_canvases(const Config::Data& data, int64_t own_side) {
  const auto &heights = data.canvas_heights, &widths = data.canvas_widths;
  REQUIRE_USAGE(heights.size() == widths.size(), "give a height and a width for each canvas, in the same order",
                "data.canvas_heights has ", heights.size(), " values, and data.canvas_widths ", widths.size());
  std::vector<ImageShape> canvases;
  for (size_t i = 0; i < heights.size(); ++i) canvases.push_back({heights[i], widths[i], 3});
  if (!canvases.empty()) return canvases;
  if (data.short_side > 0 && data.long_side > 0) {
    const int64_t low = rounded_up(data.short_side), high = rounded_up(data.long_side);
    canvases = {{low, high, 3}, {high, low, 3}};
    if (low == high) canvases.pop_back();
    return canvases;
  }
  REQUIRE_USAGE(own_side > 0, "set data.short_side and data.long_side, for example to 600 and 1000",
                "the size of the network's input is not set");
  return {{own_side, own_side, 3}};
}

}  // namespace

Canvases::Canvases(const Config::Data& data, int64_t own_side)
    : canvases_(named_canvases(data, own_side)), short_side_(data.short_side), long_side_(data.long_side) {
  REQUIRE_USAGE(long_side_ == 0 || long_side_ >= short_side_, "swap the two", "data.short_side is ", short_side_,
                ", and data.long_side ", long_side_);
  for (const ImageShape& canvas : canvases_)
    REQUIRE_USAGE(canvas.height % step == 0 && canvas.width % step == 0,
                  say("use ", rounded_up(canvas.height), " x ", rounded_up(canvas.width)), "an input of ",
                  canvas.height, " x ", canvas.width, " pixels: its sides must be multiples of ", step);
  std::ranges::stable_sort(canvases_, {}, [](const ImageShape& canvas) { return canvas.height * canvas.width; });
}

ImageSize Canvases::resized(ImageSize image, int64_t short_side) const {
  const int64_t shorter = std::min(image.height, image.width), longer = std::max(image.height, image.width);
  int64_t numerator = 1, denominator = 1;
  if (short_side > 0) numerator = short_side, denominator = shorter;
  if (long_side_ > 0 && longer * numerator > long_side_ * denominator) numerator = long_side_, denominator = longer;
  return times(image, numerator, denominator);
}

bool Canvases::holds(const ImageShape& canvas, ImageSize image) const {
  return image.height <= canvas.height && image.width <= canvas.width;
}

int Canvases::of(ImageSize image) const {
  const ImageSize wanted = resized(image, short_side_);
  const auto first = std::ranges::find_if(canvases_, [&](const ImageShape& canvas) { return holds(canvas, wanted); });
  if (first != canvases_.end()) return static_cast<int>(first - canvases_.begin());
  const auto scale = [&](const ImageShape& canvas) {
    return std::min(double(canvas.height) / double(image.height), double(canvas.width) / double(image.width));
  };
  return static_cast<int>(std::ranges::max_element(canvases_, {}, scale) - canvases_.begin());
}

bool Canvases::reduces(ImageSize image) const { return !holds(shape(of(image)), resized(image, short_side_)); }

ImageSize Canvases::content(int canvas, ImageSize image, int64_t short_side) const {
  const ImageShape shape = this->shape(canvas);
  const ImageSize wanted = resized(image, short_side);
  if (holds(shape, wanted)) return wanted;
  const bool width_limits = shape.width * image.height <= shape.height * image.width;
  return width_limits ? times(image, shape.width, image.width) : times(image, shape.height, image.height);
}

}  // namespace octet
