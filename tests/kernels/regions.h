// Problems of pools of regions that tests of several backends share.
#pragma once
#include <string>
#include <vector>

#include "tests/kernels/cases.h"

namespace octet::test {

struct RoiCase {
  std::string name;
  RoiProblem problem;
  OwnedTensor table;
};

// Regions inside of the image, across its edges, of no area and beyond it; padded rows; two images, two levels.
inline OwnedTensor region_table(const RoiProblem& problem, uint32_t seed) {
  OwnedTensor table({problem.y.n, 1, 1, 8});
  const float width = static_cast<float>(problem.levels[0].w) / problem.scales[0];
  for (int64_t i = 0; i < problem.y.n; ++i) {
    const auto number = [&](int64_t k) { return random_number(seed, 8 * i + k); };  // in [-1, 1)
    RoiRow& row = table.view().as<RoiRow>()[i];
    row.x1 = width * (0.4f + 0.5f * number(0)), row.y1 = width * (0.4f + 0.5f * number(1));
    row.x2 = row.x1 + width * 0.4f * (1 + number(2)), row.y2 = row.y1 + width * 0.4f * (1 + number(3));
    if (i % 7 == 3) row.x2 = row.x1, row.y2 = row.y1;
    if (i % 11 == 5) row.x1 = -width, row.x2 = 3 * width;
    row.level = static_cast<float>(i % static_cast<int64_t>(problem.levels.size()));
    row.valid = i % 5 == 4 ? 0 : 1;
  }
  return table;
}

inline std::vector<RoiCase> roi_cases() {
  std::vector<RoiCase> cases;
  const auto add = [&](RoiKind kind, int sampling, bool aligned, int64_t channels, std::pair<int, int> bins) {
    RoiProblem p;
    const auto [h, w] = bins;
    const int64_t of_map = kind == RoiKind::position_sensitive ? channels * h * w : channels;
    p.kind = kind, p.sampling = sampling, p.aligned = aligned, p.rois = 11;
    p.levels = {{2, 19, 26, of_map}, {2, 10, 13, of_map}};
    p.scales = {0.25f, 0.125f};
    p.y = {2 * p.rois, h, w, channels};
    cases.push_back({say(kind == RoiKind::align ? "align"
                         : kind == RoiKind::max ? "max"
                                                : "position sensitive",
                         ", sampling ", sampling, aligned ? ", aligned, " : ", ", channels, " channels"),
                     p, region_table(p, static_cast<uint32_t>(cases.size()))});
  };
  add(RoiKind::align, 2, false, 3, {7, 7});
  add(RoiKind::align, 2, true, 70, {2, 3});
  add(RoiKind::align, 0, false, 64, {3, 2});
  add(RoiKind::align, 0, true, 17, {7, 7});
  add(RoiKind::max, 2, false, 70, {3, 2});
  add(RoiKind::position_sensitive, 2, false, 21, {3, 3});
  return cases;
}

}  // namespace octet::test
