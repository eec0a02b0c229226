// Pictures that octet draws itself: backgrounds, strokes, ten classes of shapes, and noise. A picture is a function of
// its draws, to the bit, on every machine.
#pragma once
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "src/data/draws.h"

namespace octet {

struct Point {
  float x, y;
};
inline Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
inline Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
inline Point operator*(Point a, float s) { return {a.x * s, a.y * s}; }
// A signed distance: negative inside of the figure, and near its edge about the distance to it.
using Distance = std::function<float(Point)>;

// A class of shapes. The shape fits the unit disc and differs from the others in every rotation.
struct ShapeClass {
  const char* name;
  float (*distance)(Point);
};
std::span<const ShapeClass> shape_classes();

struct Color {
  float channel[3];  // red, green, blue, 0 to 255
};
float contrast(const Color& a, const Color& b);     // 0 to 255
Color random_color(Draws&, float low, float high);  // each channel in [low, high)
Point random_direction(Draws&);                     // of length 1
Point turned(Point point, Point direction);         // the point in axes of which the first is `direction`

// Height and width are `side`, a multiple of 4.
struct Drawing {
  explicit Drawing(int height_and_width) : side(height_and_width), pixels(size_t(side) * size_t(side)) {}
  int side;
  std::vector<Color> pixels;  // (side, side)
};

// What a figure covers of a drawing. cover is 0.5 on the figure's edge and grows by 1 with each pixel inwards: a pixel
// is covered where it is more than 0.5.
struct Stamp {
  int left = 0, top = 0, width = 0, height = 0;
  std::vector<float> cover;  // (height, width)
};
// The figure around `center`, no pixel of which is farther than `reach` from it. Distances are in pixels.
Stamp stamp(int side, Point center, float reach, const Distance&);
// Paints a figure. smooth: its edge is blended over one pixel; otherwise it is hard.
void paint(Drawing&, const Stamp&, const Color&, bool smooth);

// What is behind the shapes: a plain color, a gradient, or soft spots between two dark colors, and as distractors fewer
// than `strokes` thin strokes of half lengths in [shortest, longest). Returns the two colors.
std::array<Color, 2> draw_ground(Draws&, uint32_t strokes, float shortest, float longest, Drawing&);
// Writes the drawing as bytes (side, side, 3), with a sensor's noise: the sum of two random bytes for each value, at
// most 12 levels up or down.
void write_noisy(Draws&, const Drawing&, uint8_t* pixels);

}  // namespace octet
