// Ten classes of shapes that octet draws itself, so that a training needs no download.
#include <algorithm>

#include "kernels/base/error.h"
#include "src/data/drawn/drawing.h"
#include "src/data/images/pixels.h"
#include "src/data/on_threads.h"

namespace octet {
namespace {

constexpr int side = 32;

// Image `index` of a split. It does not depend on the seed of the run.
void render(DrawStream split, int64_t index, int label, uint8_t* pixels) {
  Draws draws(0, 0, split, index);
  Drawing drawing(side);
  const auto [background, second] = draw_ground(draws, 4, 2, 8, drawing);

  // One image in eight has little contrast.
  const float enough = draws.chance(0.125f) ? 25.0f : 60.0f;
  Color color = random_color(draws, 100, 255);
  while (contrast(color, background) < enough || contrast(color, second) < enough)
    color = random_color(draws, 100, 255);
  const float radius = draws.uniform(8, 13), margin = 0.85f * radius;
  const Point center = {draws.uniform(margin, side - 1 - margin), draws.uniform(margin, side - 1 - margin)};
  const Point direction = random_direction(draws);
  const bool smooth = draws.chance(0.75f);
  const Distance shape = [&](Point p) {
    return shape_classes()[label].distance(turned(p, direction) * (1 / radius)) * radius;
  };
  paint(drawing, stamp(side, center, radius + 1, shape), color, smooth);
  write_noisy(draws, drawing, pixels);
}

std::unique_ptr<Dataset> draw(int64_t count, DrawStream split, const Config& config) {
  Pixels pixels;
  pixels.padding = 2;
  pixels.augment = config.data.augment;
  pixels.augmentation = config.augment;
  pixels.images.resize(count * side * side * 3);
  pixels.labels.resize(count);
  for (const ShapeClass& shape : shape_classes()) pixels.classes.emplace_back(shape.name);
  on_threads(std::max<int64_t>(config.data.workers, 1), pixels.labels.size(), [&](size_t i) {
    pixels.labels[i] = static_cast<uint8_t>(i % shape_classes().size());
    render(split, static_cast<int64_t>(i), pixels.labels[i], pixels.images.data() + i * side * side * 3);
  });
  pixels.description = say("shapes: ", count, " drawn images of ", joined(pixels.classes, ", "));
  return make_dataset(std::move(pixels));
}

}  // namespace

Datasets open_shapes(const Config& config, bool training) {
  const int64_t samples = config.data.samples ? config.data.samples : 8192;
  return {training ? draw(samples, DrawStream::train_picture, config) : nullptr,
          draw(std::max<int64_t>(samples / 4, 1), DrawStream::test_picture, config)};
}

}  // namespace octet
