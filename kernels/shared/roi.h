// Which pixels of a map a bin of a region reads, and with what weights. A weight is the product of one of its row and
// one of its column, for samples outside of the map too, so each axis has a list of its own.
#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace octet {

struct RoiTap {
  int index;     // of a row or column of the map
  float weight;  // never 0
};

// A region along one axis of a map.
struct RoiAxis {
  float start, bin;  // in pixels of the map: where it begins, and the size of a bin
  int samples;       // of a bin (align)
  int extent;        // of the map
};

// low, high: the box's edges in pixels of the input. What is not a number counts as the smallest region.
OCTET_BOTH RoiAxis roi_axis(RoiKind kind, float low, float high, float scale, bool aligned, int sampling, int bins,
                            int extent) {
  const float count = static_cast<float>(bins);
  if (kind != RoiKind::align) {
    const float start = std::round(low * scale), end = std::round(high * scale);
    const float size = kind == RoiKind::max ? end - start + 1 : end - start;
    return {start, (size > 1 ? size : 1) / count, 0, extent};
  }
  const float offset = aligned ? 0.5f : 0.0f, least = aligned ? 0.0f : 1.0f;
  const float start = low * scale - offset, wanted = high * scale - offset - start;
  const float size = wanted > least ? wanted : least, bin = size / count;
  if (sampling > 0) return {start, bin, sampling, extent};
  const int most = (extent + bins - 1) / bins;
  const float samples = std::ceil(bin);
  return {start, bin, samples < static_cast<float>(most) ? (samples > 1 ? static_cast<int>(samples) : 1) : most,
          extent};
}

// The largest number of taps of a bin on a map of that extent.
inline int most_roi_taps(RoiKind kind, int sampling, int bins, int extent) {
  return kind != RoiKind::align ? extent : 2 * (sampling > 0 ? sampling : (extent + bins - 1) / bins);
}

// Adds to the weight of one of the last two taps, or appends a tap; indices ascend.
OCTET_BOTH int add_roi_tap(RoiTap* taps, int count, int index, float weight) {
  for (int i = count - 1; i >= 0 && i >= count - 2; --i)
    if (taps[i].index == index) {
      taps[i].weight += weight;
      return count;
    }
  taps[count] = {index, weight};
  return count + 1;
}

// Writes the taps of a bin, with ascending indices, and returns their number. Samples more than a pixel outside of the
// map count as 0. Of a maximum all weights are 1.
OCTET_BOTH int roi_taps(RoiKind kind, const RoiAxis& axis, int bin, RoiTap* taps) {
  int count = 0;
  const float extent = static_cast<float>(axis.extent), place = static_cast<float>(bin);
  if (kind != RoiKind::align) {
    const float low = axis.start + std::floor(place * axis.bin), high = axis.start + std::ceil((place + 1) * axis.bin);
    const int first = low > 0 ? static_cast<int>(low < extent ? low : extent) : 0;
    const int end = high > 0 ? static_cast<int>(high < extent ? high : extent) : 0;
    const float weight = kind == RoiKind::max ? 1.0f : 1.0f / static_cast<float>(end - first);
    for (int i = first; i < end; ++i) taps[count++] = {i, weight};
    return count;
  }
  const float samples = static_cast<float>(axis.samples);
  for (int sample = 0; sample < axis.samples; ++sample) {
    const float at = axis.start + place * axis.bin + (static_cast<float>(sample) + 0.5f) * axis.bin / samples;
    if (!(at >= -1 && at <= extent)) continue;
    const float inside = at > 0 ? at : 0.0f;
    const int low = static_cast<int>(inside), last = axis.extent - 1;
    if (low >= last) {
      count = add_roi_tap(taps, count, last, 1 / samples);
    } else {
      const float part = inside - static_cast<float>(low);
      count = add_roi_tap(taps, count, low, (1 - part) / samples);
      count = add_roi_tap(taps, count, low + 1, part / samples);
    }
  }
  int kept = 0;
  for (int i = 0; i < count; ++i)
    if (taps[i].weight != 0) taps[kept++] = taps[i];
  return kept;
}

// All taps of one region, for the host.
class RoiTaps {
 public:
  explicit RoiTaps(const RoiProblem& problem) : problem_(problem) {
    int64_t room = 0;
    for (const Shape& level : problem.levels)
      for (const auto& [bins, extent] : {std::pair(problem.y.h, level.h), std::pair(problem.y.w, level.w)})
        room = std::max<int64_t>(room, most_roi_taps(problem.kind, problem.sampling, int(bins), int(extent)));
    taps_.resize(static_cast<size_t>(room * (problem.y.h + problem.y.w)));
    ends_.resize(static_cast<size_t>(problem.y.h + problem.y.w) + 1);
  }
  void find(const RoiRow& row, size_t level) {
    ends_[0] = 0;
    append(row.y1, row.y2, level, problem_.y.h, problem_.levels[level].h, 0);
    append(row.x1, row.x2, level, problem_.y.w, problem_.levels[level].w, static_cast<size_t>(problem_.y.h));
  }
  std::span<const RoiTap> rows(int64_t bin) const { return taps_of(static_cast<size_t>(bin)); }
  std::span<const RoiTap> columns(int64_t bin) const { return taps_of(static_cast<size_t>(problem_.y.h + bin)); }

 private:
  void append(float low, float high, size_t level, int64_t bins, int64_t extent, size_t first) {
    const RoiAxis axis = roi_axis(problem_.kind, low, high, problem_.scales[level], problem_.aligned, problem_.sampling,
                                  static_cast<int>(bins), static_cast<int>(extent));
    for (int bin = 0; bin < static_cast<int>(bins); ++bin, ++first)
      ends_[first + 1] = ends_[first] + static_cast<size_t>(roi_taps(problem_.kind, axis, bin, &taps_[ends_[first]]));
  }
  std::span<const RoiTap> taps_of(size_t list) const {
    return std::span(taps_).subspan(ends_[list], ends_[list + 1] - ends_[list]);
  }
  const RoiProblem& problem_;
  std::vector<RoiTap> taps_;
  std::vector<size_t> ends_;  // of the lists: rows, then columns
};

// The level of a row, checked; for the host.
inline size_t roi_level(const RoiProblem& problem, const RoiRow& row) {
  REQUIRE(row.level >= 0 && row.level < static_cast<float>(problem.levels.size()), "give the index of a level",
          "a region lies on level ", row.level, " of ", problem.levels.size());
  return static_cast<size_t>(row.level);
}
// The factor of codes of a level in an output of scale `largest`.
OCTET_BOTH float roi_ratio(const float* scale, float largest) {
  return scale == nullptr || *scale == largest ? 1.0f : *scale / largest;
}

}  // namespace octet
