// Operations on small pictures in memory. Each gives the bytes that Pillow gives.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace octet {

struct Picture {
  int64_t height = 0, width = 0;
  std::span<uint8_t> rgb;  // (height, width, 3)
};

// ImageEnhance.Brightness, Color, Contrast and Sharpness: 1 changes nothing, 0 gives black, gray, the mean gray, or a
// smooth picture; factors above 1 lead away from it. factor: not negative.
void change_brightness(const Picture&, float factor);
void change_color(const Picture&, float factor);
void change_contrast(const Picture&, float factor);
void change_sharpness(const Picture&, float factor);

// Pillow's hue has 255 steps. steps: added to it, modulo 256.
void turn_hue(const Picture&, int steps);

void map_values(const Picture&, const std::function<uint8_t(uint8_t)>& map);  // Image.point
void stretch_contrast(const Picture&);                                        // ImageOps.autocontrast
void equalize_histogram(const Picture&);                                      // ImageOps.equalize

// Image.transform(AFFINE), nearest neighbour: pixel (x, y) comes from (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]),
// and is black where that is outside.
void transform_affine(const Picture&, const std::array<double, 6>& m);

}  // namespace octet
