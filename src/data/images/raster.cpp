#include "src/data/images/raster.h"

#include <cmath>
#include <cstring>

namespace octet {

PixelRect intersection(const PixelRect& a, const PixelRect& b) {
  const int x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::max(0, std::min(a.right(), b.right()) - x), std::max(0, std::min(a.bottom(), b.bottom()) - y)};
}

Raster::Raster(int height, int width, int of_channels)
    : rows(height),
      cols(width),
      channels(of_channels),
      step(row_bytes()),
      memory_(std::make_shared_for_overwrite<uint8_t[]>(size_t(rows) * step)) {
  data = memory_.get();
}

Raster::Raster(int height, int width, int of_channels, uint8_t* pixels)
    : rows(height), cols(width), channels(of_channels), step(row_bytes()), data(pixels) {}

Raster Raster::part(const PixelRect& rect) const {
  Raster part = *this;
  part.data = ptr(rect.y, rect.x);
  part.rows = rect.height, part.cols = rect.width;
  return part;
}

void Raster::copy_to(const Raster& other) const {
  for (int y = 0; y < rows; ++y) std::memcpy(other.ptr(y), ptr(y), row_bytes());
}

Raster Raster::copy() const {
  Raster other(rows, cols, channels);
  copy_to(other);
  return other;
}

Raster mirrored(const Raster& of) {
  Raster result(of.rows, of.cols, of.channels);
  for (int y = 0; y < of.rows; ++y) {
    uint8_t* to = result.ptr(y);
    for (int x = of.cols - 1; x >= 0; --x, to += of.channels)
      of.channels == 3 ? std::memcpy(to, of.ptr(y, x), 3) : std::memcpy(to, of.ptr(y, x), size_t(of.channels));
  }
  return result;
}

Raster turned_over(const Raster& of) {
  Raster result(of.rows, of.cols, of.channels);
  for (int y = 0; y < of.rows; ++y) std::memcpy(result.ptr(y), of.ptr(of.rows - 1 - y), of.row_bytes());
  return result;
}

Raster transposed(const Raster& of) {
  Raster result(of.cols, of.rows, of.channels);
  for (int y = 0; y < of.rows; ++y)
    for (int x = 0; x < of.cols; ++x) std::copy_n(of.ptr(y, x), of.channels, result.ptr(x, y));
  return result;
}

Raster rgb_of(const Raster& rgba) {
  Raster result(rgba.rows, rgba.cols);
  for (int y = 0; y < rgba.rows; ++y)
    for (int x = 0; x < rgba.cols; ++x) std::copy_n(rgba.ptr(y, x), 3, result.ptr(y, x));
  return result;
}

Raster enlarged(const Raster& of, int times) {
  Raster result(of.rows * times, of.cols * times, of.channels);
  for (int y = 0; y < result.rows; ++y)
    for (int x = 0; x < result.cols; ++x) std::copy_n(of.ptr(y / times, x / times), of.channels, result.ptr(y, x));
  return result;
}

void fill(const Raster& rgb, const PixelRect& rect, const Rgb& color) {
  const PixelRect inside = intersection(rect, {0, 0, rgb.cols, rgb.rows});
  for (int y = inside.y; y < inside.bottom(); ++y)
    for (int x = inside.x; x < inside.right(); ++x) std::ranges::copy(color, rgb.ptr(y, x));
}

void paint(const Raster& rgb, const Raster& cover, PixelPoint corner, const Rgb& color) {
  for (int y = std::max(0, -corner.y); y < std::min(cover.rows, rgb.rows - corner.y); ++y)
    for (int x = std::max(0, -corner.x); x < std::min(cover.cols, rgb.cols - corner.x); ++x) {
      uint8_t* const pixel = rgb.ptr(corner.y + y, corner.x + x);
      const double share = *cover.ptr(y, x) / 255.0;
      for (size_t channel = 0; channel < 3; ++channel)
        pixel[channel] = static_cast<uint8_t>(std::lround(share * color[channel] + (1 - share) * pixel[channel]));
    }
}

void draw_rectangle(const Raster& rgb, const PixelRect& rect, const Rgb& color, int width) {
  const int before = width / 2;
  const int left = rect.x - before, top = rect.y - before;
  const int right = rect.right() - 1 - before, bottom = rect.bottom() - 1 - before;
  const int across = right + width - left, down = bottom + width - top;
  fill(rgb, {left, top, across, width}, color);
  fill(rgb, {left, bottom, across, width}, color);
  fill(rgb, {left, top, width, down}, color);
  fill(rgb, {right, top, width, down}, color);
}

}  // namespace octet
