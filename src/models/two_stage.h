// What the detectors of two stages share: the region proposal network and the settings of both stages.
#pragma once
#include "src/models/detectors.h"

namespace octet {

// How many regions a network has in training and evaluation unless the recipe says so.
struct RegionCounts {
  int64_t before_nms, after_nms;            // in training
  int64_t before_nms_test, after_nms_test;  // in evaluation
  int64_t samples;                          // that train
};

// One map for which the network proposes regions.
struct RpnMap {
  Edge map;
  int64_t stride;
  std::vector<int64_t> sizes;  // of the anchors, in pixels
};

// Appends a region proposal network (Ren et al., "Faster R-CNN", NIPS 2015), in training with its losses. channels: of
// its convolution. lowest_level, highest_level: of the maps whose regions are pooled, see ProposeOptions.
Regions make_rpn(Graph&, const Config&, bool training, const std::vector<RpnMap>&, int64_t channels, int lowest_level,
                 int highest_level, const RegionCounts&);

// The anchors of the maps, for `octet check`.
AnchorRule rpn_anchors(const Config&, const std::vector<RpnMap>&);

// Appends the layers that answer for each region, with a box for each class, and the loss or the detections.
void make_box_predictor(Graph&, Edge x, const Config&, bool training, const Regions&);
// Appends the loss of the answers for regions, in evaluation the detections.
void finish_regions(Graph&, Edge logits, Edge deltas, const Config&, bool training, const Regions&);

// The sizes of the recipe, or the network's own.
inline std::vector<int64_t> or_default(const std::vector<int64_t>& sizes, const std::vector<int64_t>& own) {
  return sizes.empty() ? own : sizes;
}

}  // namespace octet
