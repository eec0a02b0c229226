// Ten classes of shapes that octet draws itself, so that a training needs no download.
#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "kernels/base/error.h"
#include "src/data/draws.h"
#include "src/data/pixels.h"

namespace octet {
namespace {

constexpr int side = 32;

struct Point {
  float x, y;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(Point a, float s) { return {a.x * s, a.y * s}; }
float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
float length(Point a) { return std::sqrt(dot(a, a)); }
float box(Point p, float width, float height) { return std::max(std::abs(p.x) - width, std::abs(p.y) - height); }

// The ten classes as signed distance functions: negative inside the shape, and near its edge about the distance to it.
// Each shape fits the unit disc and differs from the others in every rotation.
float disc(Point p) { return length(p) - 0.85f; }
float ring(Point p) { return std::abs(length(p) - 0.75f) - 0.2f; }
float square(Point p) { return box(p, 0.7f, 0.7f); }
float frame(Point p) { return std::abs(box(p, 0.6f, 0.6f)) - 0.17f; }
float triangle(Point p) { return std::max(-p.y, 0.8660254f * std::abs(p.x) + 0.5f * p.y) - 0.48f; }
float cross(Point p) { return std::min(box(p, 0.95f, 0.27f), box(p, 0.27f, 0.95f)); }
float crescent(Point p) { return std::max(length(p) - 0.95f, 0.75f - length(p - Point{0.5f, 0})); }
float bars(Point p) { return std::max(box(p, 0.8f, 0.8f), std::abs(std::abs(std::abs(p.y) - 0.32f) - 0.32f) - 0.16f); }
float arrow(Point p) {
  const float head = std::max(-0.05f - p.x, 0.8f * std::abs(p.y) + 0.6f * p.x - 0.57f);
  return std::min(head, box(p + Point{0.4f, 0}, 0.55f, 0.2f));
}
// Five points: folds the plane into one tenth of it, then takes the distance to one edge. From Inigo Quilez, "2D
// distance functions".
float star(Point p) {
  constexpr Point fold = {0.80901699f, -0.58778525f};
  constexpr float inner = 0.42f, outer = 1;
  p.x = std::abs(p.x);
  p = p - fold * (2 * std::max(dot(fold, p), 0.0f));
  const Point mirrored = {-fold.x, fold.y};
  p = p - mirrored * (2 * std::max(dot(mirrored, p), 0.0f));
  p = {std::abs(p.x), p.y - outer};
  const Point edge = Point{-fold.y, fold.x} * inner - Point{0, 1};
  const float along = std::clamp(dot(p, edge) / dot(edge, edge), 0.0f, outer);
  return std::copysign(length(p - edge * along), p.y * edge.x - p.x * edge.y);
}

struct Class {
  const char* name;
  float (*distance)(Point);
};
constexpr std::array<Class, 10> shapes = {{{"disc", disc},
                                           {"ring", ring},
                                           {"square", square},
                                           {"frame", frame},
                                           {"triangle", triangle},
                                           {"star", star},
                                           {"cross", cross},
                                           {"crescent", crescent},
                                           {"arrow", arrow},
                                           {"bars", bars}}};

struct Color {
  float channel[3];
};
Color mix(const Color& a, const Color& b, float t) {
  Color c;
  for (int i = 0; i < 3; ++i) c.channel[i] = a.channel[i] + (b.channel[i] - a.channel[i]) * t;
  return c;
}
float contrast(const Color& a, const Color& b) {
  return 0.3f * std::abs(a.channel[0] - b.channel[0]) + 0.5f * std::abs(a.channel[1] - b.channel[1]) +
         0.2f * std::abs(a.channel[2] - b.channel[2]);
}
Color random_color(Draws& draws, float low, float high) {
  return {{draws.uniform(low, high), draws.uniform(low, high), draws.uniform(low, high)}};
}

// Uses no sine and cosine, whose last bits differ between mathematical libraries.
Point random_direction(Draws& draws) {
  for (;;) {
    const Point p = {draws.uniform(-1, 1), draws.uniform(-1, 1)};
    const float norm = length(p);
    if (norm > 0.1f && norm <= 1) return p * (1 / norm);
  }
}

using Canvas = std::array<Color, size_t{side} * side>;

// A plain color, a gradient, or soft spots between two colors.
void draw_background(Draws& draws, const Color& a, const Color& b, Canvas& canvas) {
  const uint32_t kind = draws.below(3);
  const Point direction = random_direction(draws) * (1.0f / side);
  constexpr int cell = 8, knots = side / cell + 1;
  float lattice[knots][knots];
  for (auto& line : lattice)
    for (float& knot : line) knot = draws.uniform(0, 1);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      float t = 0;
      if (kind == 1) t = std::clamp(0.5f + dot({x - 15.5f, y - 15.5f}, direction), 0.0f, 1.0f);
      if (kind == 2) {
        const int i = y / cell, j = x / cell;
        const float v = static_cast<float>(y % cell) / cell, u = static_cast<float>(x % cell) / cell;
        t = (lattice[i][j] * (1 - u) + lattice[i][j + 1] * u) * (1 - v) +
            (lattice[i + 1][j] * (1 - u) + lattice[i + 1][j + 1] * u) * v;
      }
      canvas[y * side + x] = mix(a, b, t);
    }
}

// Paints `color` where distance(pixel), in pixels, is below zero. The edge is blended over one pixel, or hard.
template <class Distance>
void paint(Canvas& canvas, const Color& color, bool smooth, Point center, float reach, Distance distance) {
  const int left = std::max(0, static_cast<int>(center.x - reach)),
            right = std::min(side - 1, static_cast<int>(center.x + reach) + 1);
  const int top = std::max(0, static_cast<int>(center.y - reach)),
            bottom = std::min(side - 1, static_cast<int>(center.y + reach) + 1);
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      const float cover = 0.5f - distance(Point{static_cast<float>(x), static_cast<float>(y)} - center);
      const float t = smooth ? std::clamp(cover, 0.0f, 1.0f) : (cover > 0.5f ? 1.0f : 0.0f);
      if (t > 0) canvas[y * side + x] = mix(canvas[y * side + x], color, t);
    }
}

// Image `index` of a split. It does not depend on the seed of the run.
void render(DrawStream split, int64_t index, int label, uint8_t* pixels) {
  Draws draws(0, 0, split, index);
  Canvas canvas;
  const Color background = random_color(draws, 0, 140);
  const Color second = mix(background, random_color(draws, 0, 140), 0.5f);
  draw_background(draws, background, second, canvas);

  // Distractors: thin strokes under the shape.
  for (uint32_t strokes = draws.below(4); strokes > 0; --strokes) {
    const Point center = {draws.uniform(0, side), draws.uniform(0, side)}, direction = random_direction(draws);
    const float half = draws.uniform(2, 8);
    paint(canvas, random_color(draws, 0, 255), true, center, half + 1, [&](Point p) {
      return box({dot(p, direction), direction.x * p.y - direction.y * p.x}, half, 0.6f);
    });
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
  paint(canvas, color, smooth, center, radius + 1, [&](Point p) {
    const Point turned = {dot(p, direction), direction.x * p.y - direction.y * p.x};
    return shapes[label].distance(turned * (1 / radius)) * radius;
  });

  // Sensor noise: the sum of two random bytes for each value, at most 12 levels up or down.
  const float noise = draws.uniform(0, 12) / 255;
  const auto* numbers = canvas[0].channel;
  for (int i = 0; i < side * side * 3; i += 2) {
    const uint32_t bits = draws.bits();
    for (int j = 0; j < 2; ++j) {
      const uint32_t half = bits >> (16 * j);
      const float wobble = static_cast<float>((half & 255) + (half >> 8 & 255)) - 255;
      pixels[i + j] = static_cast<uint8_t>(std::clamp(numbers[i + j] + noise * wobble + 0.5f, 0.0f, 255.0f));
    }
  }
}

std::unique_ptr<Dataset> draw(int64_t count, DrawStream split, const Config& config) {
  Pixels pixels;
  pixels.normalization = normalization(config.data, {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}});
  pixels.padding = 2;
  pixels.augment = config.data.augment;
  pixels.images.resize(count * side * side * 3);
  pixels.labels.resize(count);
  pixels.classes = shapes.size();
  {
    const int64_t workers = std::max<int64_t>(config.data.workers, 1);
    std::vector<std::jthread> threads;
    for (int64_t worker = 0; worker < workers; ++worker)
      threads.emplace_back([&, worker] {
        for (int64_t i = worker; i < count; i += workers) {
          pixels.labels[i] = static_cast<uint8_t>(i % shapes.size());
          render(split, i, pixels.labels[i], pixels.images.data() + i * side * side * 3);
        }
      });
  }
  std::string names;
  for (const Class& shape : shapes) names += say(names.empty() ? "" : ", ", shape.name);
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
