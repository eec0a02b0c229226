#include "src/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace octet {
namespace {

// A pixel of the output is a weighted mean of neighbouring pixels of the input. The weights are a triangle around the
// pixel's centre, one output pixel wide to each side and at least one input pixel, so that none is left out. They are
// integers, multiples of 2^-22, and each of the two passes rounds to bytes: https://github.com/python-pillow/Pillow,
// Resample.c
constexpr int weight_bits = 22;

struct Taps {
  int64_t first = 0;             // input pixel of weights[0]
  std::vector<int32_t> weights;  // their sum is about 2^22
  int64_t end() const { return first + static_cast<int64_t>(weights.size()); }
};

// Rounds as Pillow does.
template <class Integer>
Integer half_up(double x) {
  return static_cast<Integer>(std::trunc(x + 0.5));
}

// Of the output pixels first .. first + count of a side that is resized from `in` to `out` pixels.
std::vector<Taps> taps_of(int64_t in, int64_t out, int64_t first, int64_t count, Resizing how) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double reach = how == Resizing::smooth ? std::max(scale, 1.0) : 1.0;
  std::vector<Taps> all(count);
  for (int64_t i = 0; i < count; ++i) {
    const double center = (static_cast<double>(first + i) + 0.5) * scale;
    const int64_t from = std::max(half_up<int64_t>(center - reach), int64_t{0});
    const int64_t to = std::min(half_up<int64_t>(center + reach), in);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t x = from; x < to; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * (1 / reach));
      weights.push_back(std::max(1 - distance, 0.0));
      sum += weights.back();
    }
    all[i].first = from;
    for (const double weight : weights) all[i].weights.push_back(half_up<int32_t>(weight / sum * (1 << weight_bits)));
  }
  return all;
}

uint8_t rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> weight_bits, 0, 255)); }
constexpr int32_t half = 1 << (weight_bits - 1);

// Each row is resized; `image` begins with input column `first`.
Raster along_rows(const Raster& image, int64_t first, const std::vector<Taps>& columns) {
  Raster result(image.rows, static_cast<int>(columns.size()), 3);
  for (int y = 0; y < image.rows; ++y) {
    uint8_t* out = result.ptr(y);
    for (const Taps& taps : columns) {
      int32_t red = half, green = half, blue = half;
      const uint8_t* pixel = image.ptr(y) + 3 * (taps.first - first);
      for (const int32_t weight : taps.weights) {
        red += weight * pixel[0];
        green += weight * pixel[1];
        blue += weight * pixel[2];
        pixel += 3;
      }
      *out++ = rounded(red);
      *out++ = rounded(green);
      *out++ = rounded(blue);
    }
  }
  return result;
}

// Each column is resized; `image` begins with input row `first`.
Raster along_columns(const Raster& image, int64_t first, const std::vector<Taps>& rows) {
  Raster result(static_cast<int>(rows.size()), image.cols, 3);
  std::vector<int32_t> sums(size_t{3} * image.cols);
  for (size_t y = 0; y < rows.size(); ++y) {
    std::ranges::fill(sums, half);
    int row = static_cast<int>(rows[y].first - first);
    for (const int32_t weight : rows[y].weights) {
      const uint8_t* const pixels = image.ptr(row++);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += weight * pixels[i];
    }
    std::ranges::transform(sums, result.ptr(static_cast<int>(y)), rounded);
  }
  return result;
}

}  // namespace

Size64 resized_size(Size64 image, int64_t shorter_side) {
  const int64_t shorter = std::min(image.width, image.height);
  return {shorter_side * image.width / shorter, shorter_side * image.height / shorter};
}

Rect64 middle_square(Size64 image, int64_t side) {
  const auto begin = [&](int64_t length) { return (length - side) / 2 + ((length - side) % 4 == 3 ? 1 : 0); };
  return {begin(image.width), begin(image.height), side, side};
}

Raster resized_part(const Raster& image, Size64 size, const Rect64& part, Resizing how) {
  if (size == size_of(image)) return image.part({int(part.x), int(part.y), int(part.width), int(part.height)});
  const std::vector<Taps> rows = taps_of(image.rows, size.height, part.y, part.height, how);
  const std::vector<Taps> columns = taps_of(image.cols, size.width, part.x, part.width, how);
  const int64_t top = rows.front().first, left = columns.front().first;
  const Raster used = image.part({int(left), int(top), int(columns.back().end() - left), int(rows.back().end() - top)});
  // The order changes some roundings. This is that of Pillow 13.
  const bool shrinks_high_image = image.rows > 2 * int64_t{image.cols} && size.height < image.rows;
  return shrinks_high_image ? along_rows(along_columns(used, top, rows), left, columns)
                            : along_columns(along_rows(used, left, columns), top, rows);
}

Raster resized(const Raster& image, PixelSize size, Resizing how) {
  return resized_part(image, {size.width, size.height}, {0, 0, size.width, size.height}, how);
}

Raster shrunk(const Raster& image, double scale) {
  const auto side = [&](int of) { return std::max(1, static_cast<int>(std::lround(of * scale))); };
  return scale < 1 ? resized(image, {side(image.cols), side(image.rows)}) : image;
}

}  // namespace octet
