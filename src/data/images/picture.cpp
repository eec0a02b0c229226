#include "src/data/images/picture.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace octet {
namespace {

using Bytes = std::vector<uint8_t>;
using Lookup = std::array<uint8_t, 256>;

// Of ITU-R 601, in 16 bits.
uint8_t gray_of(const uint8_t* pixel) {
  return static_cast<uint8_t>((pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16);
}

// From `other`, at factor 0, to the picture, at 1, and beyond. Rounds down.
void blend(const Picture& picture, const Bytes& other, float factor) {
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    const int from = other[i], to = picture.rgb[i];
    const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
    picture.rgb[i] = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }
}

std::array<int64_t, 256> histogram(const Picture& picture, size_t channel) {
  std::array<int64_t, 256> counts{};
  for (size_t i = channel; i < picture.rgb.size(); i += 3) ++counts[picture.rgb[i]];
  return counts;
}

void look_up(const Picture& picture, size_t channel, const Lookup& values) {
  for (size_t i = channel; i < picture.rgb.size(); i += 3) picture.rgb[i] = values[picture.rgb[i]];
}

// The mean of 3 x 3 pixels, in which the middle one counts five times; pixels at the edge stay.
Bytes smoothed(const Picture& picture) {
  Bytes smooth(picture.rgb.begin(), picture.rgb.end());
  const int64_t row = 3 * picture.width;
  for (int64_t y = 1; y + 1 < picture.height; ++y)
    for (int64_t i = y * row + 3; i < (y + 1) * row - 3; ++i) {
      int sum = 4 * picture.rgb[i];
      for (const int64_t line : {i - row, i, i + row})
        sum += picture.rgb[line - 3] + picture.rgb[line] + picture.rgb[line + 3];
      smooth[i] = static_cast<uint8_t>((2 * sum + 13) / 26);
    }
  return smooth;
}

struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

Hsv hsv_of(const uint8_t* rgb) {
  const int r = rgb[0], g = rgb[1], b = rgb[2], most = std::max({r, g, b}), least = std::min({r, g, b});
  if (most == least) return {0, 0, static_cast<uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  const float from_r = static_cast<float>(most - r) / range, from_g = static_cast<float>(most - g) / range,
              from_b = static_cast<float>(most - b) / range;
  const auto sixths = static_cast<float>(r == most   ? double{from_b - from_g}
                                         : g == most ? 2.0 + from_r - from_b
                                                     : 4.0 + from_g - from_r);
  const auto hue = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {static_cast<uint8_t>(hue * 255.0), static_cast<uint8_t>(saturation * 255.0), static_cast<uint8_t>(most)};
}

void write_rgb(const Hsv& hsv, uint8_t* rgb) {
  const uint8_t v = hsv.value;
  const auto saturation = static_cast<float>(hsv.saturation / 255.0),
             sixths = static_cast<float>(hsv.hue * 6.0 / 255.0);
  const int sector = static_cast<int>(sixths);
  const float f = sixths - static_cast<float>(sector);
  const auto part = [&](double lost) { return static_cast<uint8_t>(std::round(v * (1.0 - lost))); };
  const uint8_t p = part(saturation), q = part(saturation * f), t = part(saturation * (1.0 - f));
  const uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(sectors[hsv.saturation == 0 ? 0 : sector % 6], 3, rgb);
}

}  // namespace

void change_brightness(const Picture& picture, float factor) { blend(picture, Bytes(picture.rgb.size()), factor); }

void change_color(const Picture& picture, float factor) {
  Bytes gray(picture.rgb.size());
  for (size_t i = 0; i < gray.size(); i += 3) std::fill_n(&gray[i], 3, gray_of(&picture.rgb[i]));
  blend(picture, gray, factor);
}

void change_contrast(const Picture& picture, float factor) {
  double sum = 0;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) sum += gray_of(&picture.rgb[i]);
  const size_t pixels = picture.rgb.size() / 3;
  const double mean = sum / static_cast<double>(pixels);
  blend(picture, Bytes(picture.rgb.size(), static_cast<uint8_t>(std::trunc(mean + 0.5))), factor);
}

void change_sharpness(const Picture& picture, float factor) { blend(picture, smoothed(picture), factor); }

void turn_hue(const Picture& picture, int steps) {
  for (size_t i = 0; i < picture.rgb.size(); i += 3) {
    Hsv hsv = hsv_of(&picture.rgb[i]);
    hsv.hue = static_cast<uint8_t>(hsv.hue + steps);
    write_rgb(hsv, &picture.rgb[i]);
  }
}

void map_values(const Picture& picture, const std::function<uint8_t(uint8_t)>& map) {
  Lookup values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = map(static_cast<uint8_t>(i));
  for (const size_t channel : {0, 1, 2}) look_up(picture, channel, values);
}

void stretch_contrast(const Picture& picture) {
  for (const size_t channel : {0, 1, 2}) {
    const auto counts = histogram(picture, channel);
    const auto is_there = [](int64_t count) { return count > 0; };
    const auto low = std::ranges::find_if(counts, is_there) - counts.begin();
    const auto high = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_there) - 1;
    if (high <= low) continue;
    const double scale = 255.0 / static_cast<double>(high - low), offset = static_cast<double>(-low) * scale;
    Lookup values;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<uint8_t>(std::clamp(static_cast<double>(i) * scale + offset, 0.0, 255.0));
    look_up(picture, channel, values);
  }
}

void equalize_histogram(const Picture& picture) {
  for (const size_t channel : {0, 1, 2}) {
    const auto counts = histogram(picture, channel);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count > 0; });
    const int64_t step = (static_cast<int64_t>(picture.rgb.size() / 3) - *last) / 255;
    if (step == 0) continue;
    Lookup values;
    int64_t below = step / 2;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<uint8_t>(std::min<int64_t>(below / step, 255));
      below += counts[i];
    }
    look_up(picture, channel, values);
  }
}

// In multiples of 2^-16 of a pixel.
void transform_affine(const Picture& picture, const std::array<double, 6>& m) {
  const auto fixed = [](double number) { return static_cast<int64_t>(std::floor(number * 65536 + 0.5)); };
  const int64_t right[2] = {fixed(m[0]), fixed(m[3])}, down[2] = {fixed(m[1]), fixed(m[4])};
  const int64_t start[2] = {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), fixed(m[5] + m[3] * 0.5 + m[4] * 0.5)};
  const Bytes before(picture.rgb.begin(), picture.rgb.end());
  uint8_t* to = picture.rgb.data();
  for (int64_t y = 0; y < picture.height; ++y)
    for (int64_t x = 0; x < picture.width; ++x, to += 3) {
      const int64_t from_x = (start[0] + x * right[0] + y * down[0]) >> 16;
      const int64_t from_y = (start[1] + x * right[1] + y * down[1]) >> 16;
      const bool inside = from_x >= 0 && from_x < picture.width && from_y >= 0 && from_y < picture.height;
      for (int64_t c = 0; c < 3; ++c) to[c] = inside ? before[(from_y * picture.width + from_x) * 3 + c] : 0;
    }
}

}  // namespace octet
