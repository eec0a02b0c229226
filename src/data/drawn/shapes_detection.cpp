#include "src/data/drawn/shapes_detection.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/base/error.h"
#include "kernels/shared/math.h"
#include "src/data/drawn/drawing.h"
#include "src/data/on_threads.h"
#include "src/data/sources/detection_set.h"

namespace octet {
namespace {

struct Figure {
  int label = 0;
  Point center{};
  float radius = 0;  // of the disc that holds the shape
  Color color{};
  bool smooth = false;
  Stamp stamp;
};

// Whether the discs of two shapes overlap so little that both will probably be visible.
bool apart(Point center, float radius, const Figure& other) {
  const Point between = center - other.center;
  const float least = 0.85f * (radius + other.radius);
  return between.x * between.x + between.y * between.y > least * least;
}

// A place for a disc of this radius, inside of the picture: the first of some random ones that is apart from the
// other figures, or the last one.
Point random_place(Draws& draws, int side, float radius, const std::vector<Figure>& others) {
  const float margin = 0.95f * radius, end = static_cast<float>(side - 1) - margin;
  Point place{};
  for (int attempt = 0; attempt < 12; ++attempt) {
    place.x = draws.uniform(margin, end);
    place.y = draws.uniform(margin, end);
    if (std::ranges::all_of(others, [&](const Figure& other) { return apart(place, radius, other); })) break;
  }
  return place;
}

// The random color that differs most from the colors of the background and of the other figures.
Color distinct_color(Draws& draws, const Color& background, const Color& second, const std::vector<Figure>& others) {
  Color best{};
  float most = -1;
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Color color = random_color(draws, 60, 255);
    float least = std::min(contrast(color, background), contrast(color, second));
    for (const Figure& other : others) least = std::min(least, 2 * contrast(color, other.color));
    if (least > most) best = color, most = least;
  }
  return best;
}

std::vector<Figure> random_figures(Draws& draws, int side, const Color& background, const Color& second) {
  const float smallest = 14, largest = std::min(96.0f, 0.75f * static_cast<float>(side));
  constexpr float log_range = 1.9252909f;  // ln(96 / 14)
  std::vector<Figure> figures;
  for (uint32_t count = 1 + draws.below(12); count > 0; --count) {
    Figure figure;
    figure.label = static_cast<int>(draws.below(static_cast<uint32_t>(shape_classes().size())));
    const float size = smallest * static_cast<float>(exponential(draws.uniform(0, log_range)));
    figure.radius = std::min(size, largest) / 2;
    figure.center = random_place(draws, side, figure.radius, figures);
    figure.color = distinct_color(draws, background, second, figures);
    figure.smooth = draws.chance(0.75f);
    const Point direction = random_direction(draws);
    const auto shape = shape_classes()[static_cast<size_t>(figure.label)].distance;
    const float radius = figure.radius;
    figure.stamp = stamp(side, figure.center, radius + 1,
                         [=](Point p) { return shape(turned(p, direction) * (1 / radius)) * radius; });
    figures.push_back(std::move(figure));
  }
  return figures;
}

// Marks the pixels of a figure that no figure above it has taken, and returns the object that they show. An empty box:
// too little of it is visible, and nothing was marked.
Object visible_part(const Figure& figure, int side, std::vector<bool>& taken) {
  const Stamp& stamp = figure.stamp;
  int covered = 0, visible = 0, left = side, right = 0, top = side, bottom = 0;
  const auto each_covered = [&](const auto& function) {
    for (int y = 0; y < stamp.height; ++y)
      for (int x = 0; x < stamp.width; ++x)
        if (stamp.cover[y * stamp.width + x] > 0.5f) function(stamp.left + x, stamp.top + y);
  };
  each_covered([&](int x, int y) {
    ++covered;
    if (taken[y * side + x]) return;
    ++visible;
    left = std::min(left, x), right = std::max(right, x + 1);
    top = std::min(top, y), bottom = std::max(bottom, y + 1);
  });
  if (visible == 0 || 5 * visible < 2 * covered) return {};
  each_covered([&](int x, int y) { taken[y * side + x] = true; });
  return {.box = {double(left), double(top), double(right - left), double(bottom - top)},
          .area = double(visible),
          .label = figure.label};
}

std::string file_name(int64_t index) {
  std::string number = std::to_string(index + 1);
  number.insert(0, 12 - std::min<size_t>(12, number.size()), '0');
  return number + ".png";
}

std::unique_ptr<Dataset> open_split(DrawStream split, int64_t count, const Config& config, int64_t side) {
  const size_t bytes = static_cast<size_t>(side) * static_cast<size_t>(side) * 3;
  Annotations annotations = shape_annotations();
  annotations.images.resize(static_cast<size_t>(count));
  const auto pixels = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(count) * bytes);
  on_threads(config.data.workers, annotations.images.size(), [&](size_t i) {
    Scene scene = draw_scene(split, static_cast<int64_t>(i), static_cast<int>(side));
    std::ranges::copy(scene.pixels, pixels->data() + i * bytes);
    annotations.images[i] = std::move(scene.image);
  });
  const auto open = [pixels, side, bytes](int64_t index) {
    return OpenedImage{{side, side}, [=](double) {
                         return Raster(static_cast<int>(side), static_cast<int>(side), 3,
                                       pixels->data() + static_cast<size_t>(index) * bytes);
                       }};
  };
  return std::make_unique<DetectionSet>("shapes_detection", std::move(annotations), open, config.data, side,
                                        Mosaics(config));
}

}  // namespace

Scene draw_scene(DrawStream split, int64_t index, int side) {
  Draws draws(0, 2, split, index);  // other numbers than those of the sets shapes and synthetic
  Drawing drawing(side);
  const auto [background, second] = draw_ground(draws, 6, 4, 20, drawing);
  const std::vector<Figure> figures = random_figures(draws, side, background, second);
  Scene scene = {{.id = index + 1, .name = file_name(index), .path = {}, .width = side, .height = side, .objects = {}},
                 std::vector<uint8_t>(drawing.pixels.size() * 3)};
  std::vector<bool> taken(static_cast<size_t>(side) * static_cast<size_t>(side));
  std::vector<const Figure*> kept;  // from the uppermost down
  for (auto figure = figures.rbegin(); figure != figures.rend(); ++figure) {
    const Object object = visible_part(*figure, side, taken);
    if (object.box.width == 0) continue;
    scene.image.objects.push_back(object);
    kept.push_back(&*figure);
  }
  for (auto figure = kept.rbegin(); figure != kept.rend(); ++figure)
    paint(drawing, (*figure)->stamp, (*figure)->color, (*figure)->smooth);
  write_noisy(draws, drawing, scene.pixels.data());
  return scene;
}

Annotations shape_annotations() {
  Annotations annotations;
  for (const ShapeClass& shape : shape_classes()) {
    annotations.classes.emplace_back(shape.name);
    annotations.category_ids.push_back(static_cast<int64_t>(annotations.classes.size()));
  }
  return annotations;
}

Datasets open_shapes_detection(const Config& config, bool training) {
  const int64_t samples = config.data.samples ? config.data.samples : 2048, side = image_side(config.data);
  REQUIRE_USAGE(side % 32 == 0 && side >= 64, "set data.image_size to 64 or more, a multiple of 32",
                "data.image_size is ", side);
  return {training ? open_split(DrawStream::train_picture, samples, config, side) : nullptr,
          open_split(DrawStream::test_picture, std::max<int64_t>(samples / 8, 1), config, side)};
}

}  // namespace octet
