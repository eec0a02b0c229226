#include "src/data/drawn/drawing.h"

#include <algorithm>
#include <cmath>

namespace octet {
namespace {

float dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
float length(Point a) { return std::sqrt(dot(a, a)); }
float box(Point p, float width, float height) { return std::max(std::abs(p.x) - width, std::abs(p.y) - height); }

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

constexpr std::array<ShapeClass, 10> shapes = {{{"disc", disc},
                                                {"ring", ring},
                                                {"square", square},
                                                {"frame", frame},
                                                {"triangle", triangle},
                                                {"star", star},
                                                {"cross", cross},
                                                {"crescent", crescent},
                                                {"arrow", arrow},
                                                {"bars", bars}}};

// a at t = 0, b at t = 1
Color mix(const Color& a, const Color& b, float t) {
  Color c;
  for (int i = 0; i < 3; ++i) c.channel[i] = a.channel[i] + (b.channel[i] - a.channel[i]) * t;
  return c;
}

// A plain color, a gradient, or soft spots between two colors.
void draw_background(Draws& draws, const Color& a, const Color& b, Drawing& drawing) {
  const int side = drawing.side;
  const uint32_t kind = draws.below(3);
  const Point direction = random_direction(draws) * (1.0f / static_cast<float>(side));
  constexpr int cells = 4;
  const int cell = side / cells;
  const float middle = static_cast<float>(side - 1) / 2;
  float lattice[cells + 1][cells + 1];
  for (auto& line : lattice)
    for (float& knot : line) knot = draws.uniform(0, 1);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      float t = 0;
      if (kind == 1)
        t = std::clamp(0.5f + dot({static_cast<float>(x) - middle, static_cast<float>(y) - middle}, direction), 0.0f,
                       1.0f);
      if (kind == 2) {
        const int i = y / cell, j = x / cell;
        const float v = static_cast<float>(y % cell) / static_cast<float>(cell);
        const float u = static_cast<float>(x % cell) / static_cast<float>(cell);
        t = (lattice[i][j] * (1 - u) + lattice[i][j + 1] * u) * (1 - v) +
            (lattice[i + 1][j] * (1 - u) + lattice[i + 1][j + 1] * u) * v;
      }
      drawing.pixels[y * side + x] = mix(a, b, t);
    }
}

}  // namespace

std::span<const ShapeClass> shape_classes() { return shapes; }

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

Point turned(Point point, Point direction) {
  return {dot(point, direction), direction.x * point.y - direction.y * point.x};
}

Stamp stamp(int side, Point center, float reach, const Distance& distance) {
  const int left = std::max(0, static_cast<int>(center.x - reach)),
            right = std::min(side - 1, static_cast<int>(center.x + reach) + 1);
  const int top = std::max(0, static_cast<int>(center.y - reach)),
            bottom = std::min(side - 1, static_cast<int>(center.y + reach) + 1);
  Stamp stamp = {left, top, right - left + 1, bottom - top + 1, {}};
  stamp.cover.reserve(static_cast<size_t>(stamp.width) * static_cast<size_t>(stamp.height));
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x)
      stamp.cover.push_back(0.5f - distance(Point{static_cast<float>(x), static_cast<float>(y)} - center));
  return stamp;
}

void paint(Drawing& drawing, const Stamp& stamp, const Color& color, bool smooth) {
  const float* cover = stamp.cover.data();
  for (int y = stamp.top; y < stamp.top + stamp.height; ++y)
    for (int x = stamp.left; x < stamp.left + stamp.width; ++x, ++cover) {
      const float t = smooth ? std::clamp(*cover, 0.0f, 1.0f) : (*cover > 0.5f ? 1.0f : 0.0f);
      Color& pixel = drawing.pixels[y * drawing.side + x];
      if (t > 0) pixel = mix(pixel, color, t);
    }
}

std::array<Color, 2> draw_ground(Draws& draws, uint32_t strokes, float shortest, float longest, Drawing& drawing) {
  const Color first = random_color(draws, 0, 140);
  const Color second = mix(first, random_color(draws, 0, 140), 0.5f);
  draw_background(draws, first, second, drawing);
  const float end = static_cast<float>(drawing.side);
  for (uint32_t left = draws.below(strokes); left > 0; --left) {
    const Point center = {draws.uniform(0, end), draws.uniform(0, end)}, direction = random_direction(draws);
    const float half = draws.uniform(shortest, longest);
    const Distance stroke = [&](Point p) { return box(turned(p, direction), half, 0.6f); };
    const Color color = random_color(draws, 0, 255);
    paint(drawing, stamp(drawing.side, center, half + 1, stroke), color, true);
  }
  return {first, second};
}

void write_noisy(Draws& draws, const Drawing& drawing, uint8_t* pixels) {
  const float noise = draws.uniform(0, 12) / 255;
  const auto* numbers = drawing.pixels[0].channel;
  for (int i = 0; i < drawing.side * drawing.side * 3; i += 2) {
    const uint32_t bits = draws.bits();
    for (int j = 0; j < 2; ++j) {
      const uint32_t half = bits >> (16 * j);
      const float wobble = static_cast<float>((half & 255) + (half >> 8 & 255)) - 255;
      pixels[i + j] = static_cast<uint8_t>(std::clamp(numbers[i + j] + noise * wobble + 0.5f, 0.0f, 255.0f));
    }
  }
}

}  // namespace octet
