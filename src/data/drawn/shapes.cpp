// Ten classes of shapes that octet draws itself, so that a training needs no download.
#include <algorithm>
#include <thread>

#include "kernels/base/error.h"
#include "src/data/drawn/drawing.h"
#include "src/data/images/pixels.h"

namespace octet {
namespace {

constexpr int side = 32;

// Image `index` of a split. It does not depend on the seed of the run.
void render(DrawStream split, int64_t index, int label, uint8_t* pixels) {
  Draws draws(0, 0, split, index);
  Drawing drawing(side);
  const Color background = random_color(draws, 0, 140);
  const Color second = mix(background, random_color(draws, 0, 140), 0.5f);
  draw_background(draws, background, second, drawing);

  // Distractors: thin strokes under the shape.
  for (uint32_t strokes = draws.below(4); strokes > 0; --strokes) {
    const Point center = {draws.uniform(0, side), draws.uniform(0, side)}, direction = random_direction(draws);
    const float half = draws.uniform(2, 8);
    const Color color = random_color(draws, 0, 255);
    paint(drawing, stamp(side, center, half + 1, stroke(direction, half)), color, true);
  }

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
  pixels.normalization = normalization(config.data, of_drawings);
  pixels.padding = 2;
  pixels.augment = config.data.augment;
  pixels.augmentation = config.augment;
  pixels.images.resize(count * side * side * 3);
  pixels.labels.resize(count);
  for (const ShapeClass& shape : shape_classes()) pixels.classes.emplace_back(shape.name);
  {
    const int64_t workers = std::max<int64_t>(config.data.workers, 1);
    std::vector<std::jthread> threads;
    for (int64_t worker = 0; worker < workers; ++worker)
      threads.emplace_back([&, worker] {
        for (int64_t i = worker; i < count; i += workers) {
          pixels.labels[i] = static_cast<uint8_t>(i % shape_classes().size());
          render(split, i, pixels.labels[i], pixels.images.data() + i * side * side * 3);
        }
      });
  }
  std::string names;
  for (const ShapeClass& shape : shape_classes()) names += say(names.empty() ? "" : ", ", shape.name);
  pixels.description = say("shapes: ", count, " drawn images of ", names);
  return make_dataset(std::move(pixels));
}

}  // namespace

Datasets open_shapes(const Config& config, bool training) {
  const int64_t samples = config.data.samples ? config.data.samples : 8192;
  return {training ? draw(samples, DrawStream::train_picture, config) : nullptr,
          draw(std::max<int64_t>(samples / 4, 1), DrawStream::test_picture, config)};
}

}  // namespace octet
