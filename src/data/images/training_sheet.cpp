#include "src/data/images/training_sheet.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/error.h"
#include "src/data/images/encode_image.h"
#include "src/data/images/resize.h"

namespace octet {
namespace {

constexpr int columns = 4, most_images = 16;
constexpr int longest_side = 256, gap = 4;  // of an image on the sheet, in pixels

// Empty: the image cannot be read.
Raster small_input(const Dataset& data, int64_t index, uint64_t seed) {
  const ImageShape shape = data.canvas_shape(0);
  const Raster pixels(static_cast<int>(shape.height), static_cast<int>(shape.width), pixel_channels);
  Truth truth;
  try {
    if (!data.read_with_truth(index, true, seed, 0, pixels.data, truth)) return {};
  } catch (const Error&) {  // the training says so when it comes there
    return {};
  }
  const double scale = std::min(1.0, 1.0 * longest_side / std::max(pixels.rows, pixels.cols));
  const Raster picture = shrunk(rgb_of(pixels), scale);
  for (const Truth::Object& object : truth.objects) {
    const auto at = [&](float position) { return static_cast<int>(std::lround(position * scale)); };
    const int x = at(object.box.x1), y = at(object.box.y1);
    draw_rectangle(picture, {x, y, at(object.box.x2) - x + 1, at(object.box.y2) - y + 1}, {255, 70, 40}, 1);
  }
  return picture;
}

}  // namespace

Sheet training_sheet(const Dataset& data, uint64_t seed) {
  std::vector<int64_t> of_first_canvas;
  for (int64_t index = 0; index < data.size(); ++index)
    if (data.canvases() == 1 || data.canvas(index) == 0) of_first_canvas.push_back(index);
  std::vector<Raster> images;
  const auto count = std::min<int64_t>(most_images, static_cast<int64_t>(of_first_canvas.size()));
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(i * static_cast<int64_t>(of_first_canvas.size()) / count);
    if (Raster image = small_input(data, of_first_canvas[place], seed); !image.empty())
      images.push_back(std::move(image));
  }
  if (images.empty()) return {};
  const int width = images[0].cols + gap, height = images[0].rows + gap;
  const int rows = (static_cast<int>(images.size()) + columns - 1) / columns;
  const Raster sheet(rows * height - gap, std::min(columns, static_cast<int>(images.size())) * width - gap);
  std::ranges::fill(sheet.bytes(), uint8_t{255});
  for (int i = 0; i < static_cast<int>(images.size()); ++i)
    images[static_cast<size_t>(i)].copy_to(
        sheet.part({i % columns * width, i / columns * height, width - gap, height - gap}));
  const std::vector<uint8_t> png = png_of(sheet);
  return {sheet.cols, sheet.rows, std::string(png.begin(), png.end())};
}

}  // namespace octet
