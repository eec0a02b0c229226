#include "src/data/augment/randaugment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/error.h"

namespace octet {
namespace {

enum class Unit { one, width, height };

struct Operation {
  const char* name;
  bool has_two_directions;
  float least, greatest;  // strength at magnitudes 0 and 30
  void (*apply)(const Picture&, float strength);
  Unit unit = Unit::one;  // of the strengths
};

// Sine and cosine of whole degrees alone, so that a difference between math libraries cannot be seen in 16 bits.
void rotate(const Picture& picture, float degrees) {
  const double angle = -degrees * std::numbers::pi / 180, sine = std::sin(angle), cosine = std::cos(angle);
  const double x = static_cast<double>(picture.width) / 2, y = static_cast<double>(picture.height) / 2;
  transform_affine(picture, {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y});
}

void move_right(const Picture& picture, float pixels) {
  transform_affine(picture, {1, 0, -std::trunc(double{pixels}), 0, 1, 0});
}
void move_down(const Picture& picture, float pixels) {
  transform_affine(picture, {1, 0, 0, 0, 1, -std::trunc(double{pixels})});
}

constexpr float farthest = 150.0f / 331;  // share of a side
constexpr Operation operations_by_name[] = {
    {"Identity", false, 0, 0, [](const Picture&, float) {}},
    {"ShearX", true, 0, 0.3f,
     [](const Picture& p, float s) {
       transform_affine(p, {1, s, 0, 0, 1, 0});
     }},
    {"ShearY", true, 0, 0.3f,
     [](const Picture& p, float s) {
       transform_affine(p, {1, 0, 0, s, 1, 0});
     }},
    {"TranslateX", true, 0, farthest, move_right, Unit::width},
    {"TranslateY", true, 0, farthest, move_down, Unit::height},
    {"Rotate", true, 0, 30, rotate},
    {"Brightness", true, 0, 0.9f, [](const Picture& p, float s) { change_brightness(p, 1 + s); }},
    {"Color", true, 0, 0.9f, [](const Picture& p, float s) { change_color(p, 1 + s); }},
    {"Contrast", true, 0, 0.9f, [](const Picture& p, float s) { change_contrast(p, 1 + s); }},
    {"Sharpness", true, 0, 0.9f, [](const Picture& p, float s) { change_sharpness(p, 1 + s); }},
    {"Posterize", false, 0, 4,
     [](const Picture& p, float s) {
       const int cleared = (1 << std::lrint(s)) - 1;  // low bits; half a bit is rounded to even
       map_values(p, [&](uint8_t value) { return static_cast<uint8_t>(value & ~cleared); });
     }},
    {"Solarize", false, 255, 0,
     [](const Picture& p, float s) {
       map_values(p, [&](uint8_t value) { return value < s ? value : static_cast<uint8_t>(255 - value); });
     }},
    {"AutoContrast", false, 0, 0, [](const Picture& p, float) { stretch_contrast(p); }},
    {"Equalize", false, 0, 0, [](const Picture& p, float) { equalize_histogram(p); }},
};

// Evenly spaced, counted from the nearer end, as torch.linspace does in f32.
float strength_of(const Operation& operation, int64_t magnitude, const Picture& picture) {
  const int64_t unit = operation.unit == Unit::width    ? picture.width
                       : operation.unit == Unit::height ? picture.height
                                                        : 1;
  const float greatest = operation.greatest * static_cast<float>(unit), step = (greatest - operation.least) / 30;
  return magnitude < 15 ? operation.least + step * static_cast<float>(magnitude)
                        : greatest - step * static_cast<float>(30 - magnitude);
}

void apply(const Operation& operation, int64_t magnitude, bool negative, const Picture& picture) {
  const float strength = strength_of(operation, magnitude, picture);
  operation.apply(picture, negative && operation.has_two_directions ? -strength : strength);
}

}  // namespace

void randaugment(Draws& draws, int64_t operations, int64_t magnitude, const Picture& picture) {
  for (int64_t i = 0; i < operations; ++i) {
    const Operation& operation = operations_by_name[draws.below(std::size(operations_by_name))];
    apply(operation, magnitude, draws.bits() >> 31, picture);
  }
}

void apply_operation(const std::string& name, int64_t magnitude, bool negative, const Picture& picture) {
  const auto* const found = std::ranges::find(operations_by_name, name, &Operation::name);
  REQUIRE(found != std::end(operations_by_name), "use one of operation_names()", "there is no operation ", name);
  apply(*found, magnitude, negative, picture);
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const Operation& operation : operations_by_name) names.emplace_back(operation.name);
  return names;
}

}  // namespace octet
