// Boxes on images: overlap, coding relative to another box, order by score, and suppression of duplicates. Plain C++ in
// f32, with the project's own exp and log, so that the same numbers give the same bits on every machine.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/shared/encode.h"
#include "kernels/shared/math.h"

namespace octet {

// From the left and upper edge to the right and lower edge, in pixels; half-open: the width is x2 - x1. The left edge
// of the first pixel is 0.
struct Box {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  float width() const { return x2 - x1; }
  float height() const { return y2 - y1; }
  float area() const { return width() * height(); }
  float center_x() const { return x1 + 0.5f * width(); }
  float center_y() const { return y1 + 0.5f * height(); }
};

// The part of the box inside an image of that size.
inline Box clip_to_image(const Box& box, float width, float height) {
  const auto inside = [](float x, float most) { return std::min(most, std::max(0.0f, x)); };  // 0 for NaN
  return {inside(box.x1, width), inside(box.y1, height), inside(box.x2, width), inside(box.y2, height)};
}

// Intersection over union, in [0, 1]. Boxes without area, and boxes that are not numbers, overlap nothing.
inline float overlap_of(const Box& a, const Box& b) {
  const float width = std::max(0.0f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const float height = std::max(0.0f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
  const float common = width * height, together = a.area() + b.area() - common;
  return together > 0 ? common / together : 0;
}

// A box relative to another one, as a network predicts it (equation (2) of "Faster R-CNN", NIPS 2015):
//   x = weight.x (center - its center) / its width,  width = weight.width ln(width / its width),  and so on.
struct BoxCode {
  float x = 0, y = 0, width = 0, height = 0;
};
// RPN and RetinaNet take ones. The RoI heads of Faster R-CNN take 10, 10, 5, 5.
struct BoxWeights {
  float x = 1, y = 1, width = 1, height = 1;
};
// Both boxes have an area above 0.
inline BoxCode encode_box(const Box& box, const Box& from, const BoxWeights& weight = {}) {
  const auto log_ratio = [](float size, float by) { return static_cast<float>(natural_log(size / by)); };
  return {weight.x * (box.center_x() - from.center_x()) / from.width(),
          weight.y * (box.center_y() - from.center_y()) / from.height(),
          weight.width * log_ratio(box.width(), from.width()), weight.height * log_ratio(box.height(), from.height())};
}
// A side is at most 62.5 (1000 / 16) times as long as that of `from`, so that a wild prediction does not overflow.
inline Box decode_box(const BoxCode& code, const Box& from, const BoxWeights& weight = {}) {
  const float most = 4.135166556742356f;  // ln 62.5
  const auto ratio = [&](float log) { return static_cast<float>(exponential(std::min(log, most))); };
  const float width = ratio(code.width / weight.width) * from.width();
  const float height = ratio(code.height / weight.height) * from.height();
  const float x = code.x / weight.x * from.width() + from.center_x();
  const float y = code.y / weight.y * from.height() + from.center_y();
  return {x - 0.5f * width, y - 0.5f * height, x + 0.5f * width, y + 0.5f * height};
}

// The level of a feature pyramid whose map serves a region of that size: level 4 for an area of 224 x 224 pixels, one
// level more for each doubling of its side (equation (1) of "Feature Pyramid Networks", CVPR 2017).
inline int pyramid_level(const Box& box, int lowest, int highest) {
  const double side = std::sqrt(static_cast<double>(std::max(0.0f, box.area())));
  const double level = std::floor(4 + natural_log(side / 224) * 1.44269504088896340736 + 1e-6);
  return static_cast<int>(std::clamp(level, static_cast<double>(lowest), static_cast<double>(highest)));
}

// A number that is smaller for what ranks before: the higher score, and of equal scores the smaller index.
inline uint64_t rank_key(float score, uint32_t index) {
  const uint32_t bits = bits_of(score + 0.0f);  // -0 and 0 are equal
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(~ascending) << 32 | index;
}

// The indices of the `most` first scores, the first of them first, among the scores above the limit. A score that is
// not a number is above nothing.
inline std::vector<int32_t> top_scores(std::span<const float> scores, int64_t most,
                                       float limit = -std::numeric_limits<float>::infinity()) {
  std::vector<uint64_t> keys;
  keys.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > limit) keys.push_back(rank_key(scores[i], static_cast<uint32_t>(i)));
  const auto end = keys.begin() + std::min(most, static_cast<int64_t>(keys.size()));
  if (end != keys.end()) std::nth_element(keys.begin(), end, keys.end());
  std::sort(keys.begin(), end);
  std::vector<int32_t> indices;
  indices.reserve(static_cast<size_t>(end - keys.begin()));
  for (auto key = keys.begin(); key != end; ++key) indices.push_back(static_cast<int32_t>(*key & 0xFFFFFFFFu));
  return indices;
}

// Non-maximum suppression: of the boxes in the given order, those that overlap none of the kept ones before them by
// more than the threshold; at most `most`, in order.
inline std::vector<int32_t> suppress_overlaps(std::span<const Box> boxes, std::span<const int32_t> order,
                                              float threshold, int64_t most = std::numeric_limits<int64_t>::max()) {
  std::vector<int32_t> kept;
  for (const int32_t own : order) {
    if (static_cast<int64_t>(kept.size()) >= most) break;
    const Box& box = boxes[static_cast<size_t>(own)];
    const bool duplicate = std::any_of(kept.begin(), kept.end(), [&](int32_t other) {
      return overlap_of(boxes[static_cast<size_t>(other)], box) > threshold;
    });
    if (!duplicate) kept.push_back(own);
  }
  return kept;
}

}  // namespace octet
