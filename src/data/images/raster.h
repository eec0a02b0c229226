// Pixels in memory: rows of 8-bit channels.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace octet {

struct PixelPoint {
  int x = 0, y = 0;
};

template <class Number>
struct SizeOf {
  Number width = 0, height = 0;
  Number area() const { return width * height; }
  bool operator==(const SizeOf&) const = default;
};
using PixelSize = SizeOf<int>;

template <class Number>
struct RectOf {
  Number x = 0, y = 0, width = 0, height = 0;
  Number right() const { return x + width; }    // the first column beyond it
  Number bottom() const { return y + height; }  // the first row beyond it
  Number area() const { return width * height; }
  SizeOf<Number> size() const { return {width, height}; }
};
using PixelRect = RectOf<int>;
PixelRect intersection(const PixelRect&, const PixelRect&);  // of no area: they do not meet

using Rgb = std::array<uint8_t, 3>;

// Copies share their pixels, as do parts with the whole.
class Raster {
 public:
  int rows = 0, cols = 0, channels = 3;
  size_t step = 0;  // bytes from a row to the next
  uint8_t* data = nullptr;

  Raster() = default;
  // Pixels of any value.
  Raster(int height, int width, int of_channels = 3);
  // Of pixels that somebody else owns, row after row.
  Raster(int height, int width, int of_channels, uint8_t* pixels);

  bool empty() const { return data == nullptr; }
  PixelSize size() const { return {cols, rows}; }
  size_t row_bytes() const { return size_t(cols) * size_t(channels); }
  uint8_t* ptr(int y, int x = 0) const { return data + size_t(y) * step + size_t(x) * size_t(channels); }
  bool is_whole() const { return step == row_bytes(); }
  // All bytes; of a whole one.
  std::span<uint8_t> bytes() const { return {data, size_t(rows) * step}; }
  Raster part(const PixelRect&) const;
  Raster copy() const;
  void copy_to(const Raster& other) const;  // of the same size

 private:
  std::shared_ptr<uint8_t[]> memory_;
};

Raster mirrored(const Raster&);     // left and right
Raster turned_over(const Raster&);  // above and below
Raster transposed(const Raster&);
Raster rgb_of(const Raster& rgba);  // without the fourth channel
Raster enlarged(const Raster&, int times);

// What lies beyond the picture is left out.
void fill(const Raster& rgb, const PixelRect&, const Rgb&);
// Paints where `cover` is above 0, and fully where it is 255; its upper left corner lies at `corner`.
void paint(const Raster& rgb, const Raster& cover, PixelPoint corner, const Rgb&);
// The lines are `width` pixels wide; the pixels of the rectangle's border lie in their middle.
void draw_rectangle(const Raster& rgb, const PixelRect&, const Rgb&, int width);

}  // namespace octet
