#include "src/graph/nodes/candidates.h"

#include <algorithm>

namespace octet {

std::vector<int32_t> best_candidates(std::span<const Candidate> candidates, float overlap, int64_t most) {
  std::vector<Box> boxes;
  std::vector<float> scores;
  int32_t groups = 0;
  for (const Candidate& candidate : candidates) {
    boxes.push_back(candidate.box);
    scores.push_back(candidate.score);
    groups = std::max(groups, candidate.group + 1);
  }
  std::vector<std::vector<int32_t>> orders(static_cast<size_t>(groups));
  for (const int32_t i : top_scores(scores, static_cast<int64_t>(scores.size())))
    orders[static_cast<size_t>(candidates[static_cast<size_t>(i)].group)].push_back(i);
  std::vector<int32_t> kept;
  for (const std::vector<int32_t>& order : orders) {
    const std::vector<int32_t> of_group = suppress_overlaps(boxes, order, overlap, most);
    kept.insert(kept.end(), of_group.begin(), of_group.end());
  }
  std::sort(kept.begin(), kept.end(), [&](int32_t a, int32_t b) {
    return rank_key(scores[static_cast<size_t>(a)], static_cast<uint32_t>(a)) <
           rank_key(scores[static_cast<size_t>(b)], static_cast<uint32_t>(b));
  });
  kept.resize(std::min(kept.size(), static_cast<size_t>(most)));
  return kept;
}

void add_detections(std::span<const Candidate> candidates, const DetectOptions& options, const Truth::Image& of,
                    std::vector<Detection>& found) {
  for (const int32_t i : best_candidates(candidates, options.overlap, options.detections)) {
    const auto& [box, score, label] = candidates[static_cast<size_t>(i)];
    const double left = double(box.x1) / of.scale_x, top = double(box.y1) / of.scale_y;
    found.push_back({.image = of.index,
                     .label = label,
                     .score = score,
                     .box = {left, top, double(box.x2) / of.scale_x - left, double(box.y2) / of.scale_y - top}});
  }
}

std::span<const float> host_values(const Step& step, Edge edge, std::vector<float>& copy) {
  const Tensor values = step.value(edge).values;
  const auto count = static_cast<size_t>(values.elements());
  if (step.backend.host_memory()) return {values.f32(), count};
  copy.resize(count);
  step.backend.to_host(copy.data(), values.data, values.bytes());
  return copy;
}

}  // namespace octet
