// What the nodes of a dense detector share: the anchors of all levels.
#pragma once
#include <vector>

#include "src/graph/nodes/detection.h"

namespace octet {

inline std::vector<Edge> edges_of(const std::vector<DenseLevel>& levels) {
  std::vector<Edge> edges;
  for (const DenseLevel& level : levels) edges.insert(edges.end(), {level.logits, level.deltas});
  return edges;
}

// Sets the sizes of the maps from the shapes of edges_of(levels), and returns the anchors of all levels in order.
// Error: a shape does not fit the number of anchors.
inline std::vector<Box> place_anchors(std::vector<DenseLevel>& levels, const std::vector<Shape>& shapes, int classes) {
  std::vector<AnchorLevel> all;
  for (size_t i = 0; i < levels.size(); ++i) {
    AnchorLevel& anchors = levels[i].anchors;
    const Shape &logits = shapes[2 * i], &deltas = shapes[2 * i + 1];
    anchors.height = logits.h;
    anchors.width = logits.w;
    const int64_t per_pixel = anchors.per_pixel();
    REQUIRE(logits.c == per_pixel * classes && deltas == (Shape{logits.n, logits.h, logits.w, per_pixel * 4}),
            "give a logit for each class and four deltas for each anchor", "level ", i, " has ", logits.c,
            " logits and ", deltas.c, " deltas a pixel for ", per_pixel, " anchors of ", classes, " classes");
    all.push_back(anchors);
  }
  return make_anchors(all);
}

}  // namespace octet
