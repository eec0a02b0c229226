// Anchors: the boxes of fixed sizes and ratios around every pixel of a map, which a detector classifies and moves.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/shared/boxes.h"

namespace octet {

// One level of a feature pyramid.
struct AnchorLevel {
  int64_t height = 1, width = 1;  // of its map
  float stride = 16;              // from one center to the next, in pixels of the network's input
  std::vector<float> sizes;       // square roots of areas, in pixels of the input
  std::vector<float> ratios;      // height / width
  int64_t per_pixel() const { return static_cast<int64_t>(sizes.size() * ratios.size()); }
  int64_t count() const { return height * width * per_pixel(); }
};
// torchvision rounds the corners of a cell (ties to even) and puts the first center at 0. detectron2 does not round.
struct AnchorStyle {
  bool rounded = true;
  float offset = 0;  // of the first center, in strides
};

// The anchors of one pixel around (0, 0), ratio by ratio, and for each the sizes in order.
inline std::vector<Box> anchor_cell(const AnchorLevel& level, const AnchorStyle& style) {
  std::vector<Box> cell;
  for (const float ratio : level.ratios) {
    const float tall = std::sqrt(ratio), wide = 1 / tall;
    for (const float size : level.sizes) {
      const auto half = [&](float factor) {
        const float edge = factor * size / 2;
        return style.rounded ? round_nearest(edge) : edge;
      };
      cell.push_back({-half(wide), -half(tall), half(wide), half(tall)});
    }
  }
  return cell;
}

// All anchors in the order in which NHWC outputs hold their predictions: level, row, column, ratio, size.
inline std::vector<Box> make_anchors(std::span<const AnchorLevel> levels, const AnchorStyle& style = {}) {
  std::vector<Box> anchors;
  for (const AnchorLevel& level : levels) {
    const std::vector<Box> cell = anchor_cell(level, style);
    for (int64_t row = 0; row < level.height; ++row) {
      for (int64_t column = 0; column < level.width; ++column) {
        const float x = (static_cast<float>(column) + style.offset) * level.stride;
        const float y = (static_cast<float>(row) + style.offset) * level.stride;
        for (const Box& box : cell) anchors.push_back({x + box.x1, y + box.y1, x + box.x2, y + box.y2});
      }
    }
  }
  return anchors;
}

}  // namespace octet
