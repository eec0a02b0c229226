// The nodes of detectors: losses, proposals, pools of regions, detections. See nodes.h.
#pragma once
#include <memory>

#include "kernels/shared/anchors.h"
#include "src/graph/nodes/nodes.h"

namespace octet {

// One level of a dense detector's answers for its anchors. The nodes set the height and width of the anchors' map.
struct DenseLevel {
  Edge logits;  // (N, H, W, anchors * classes)
  Edge deltas;  // (N, H, W, anchors * 4), see encode_box()
  AnchorLevel anchors;
};

// Focal loss of the classes and smooth L1 loss of the boxes, over all anchors of all levels.
struct DenseLossOptions {
  std::vector<DenseLevel> levels;
  int classes = 1;                         // 1: there are objects and background, whatever the classes of the objects
  float positive = 0.5f, negative = 0.4f;  // see MatchProblem
  float alpha = 0.25f, gamma = 2;          // of the focal loss, see SigmoidProblem
  float beta = 0;                          // of the smooth L1 loss; 0: L1
  int64_t samples = 0;                     // anchors of an image that train, chosen at random; 0: all
  float fraction = 0.5f;                   // of them, at most, find an object
  std::string class_name, box_name;        // of the losses
};
void dense_loss(Graph&, const std::string& name, const DenseLossOptions&);

// How the answers become detections.
struct DetectOptions {
  int classes = 1;
  float score = 0.05f;       // the least score
  float overlap = 0.5f;      // of two boxes of a class; the one with the lower score is dropped beyond it
  int64_t of_level = 1000;   // the best answers of a level that are considered
  int64_t detections = 100;  // of an image
};
struct DenseDetectOptions : DetectOptions {
  std::vector<DenseLevel> levels;
};
void detect(Graph&, const DenseDetectOptions&);

// How the answers for anchors become proposals, and in training how a choice of these finds objects.
struct ProposeOptions {
  std::vector<DenseLevel> levels;
  int64_t before_nms = 2000, after_nms = 2000;  // the best answers of a level, and of an image after suppression
  float overlap = 0.7f;                         // of two answers of a level; the worse one is dropped beyond it
  int lowest_level = 2, highest_level = 5;      // of the maps whose regions are pooled: level i has the stride 2^i
  bool training = false;
  int64_t samples = 512;                   // training: regions of an image, of proposals and objects
  float fraction = 0.25f;                  // of them, at most, find an object
  float positive = 0.5f, negative = 0.5f;  // see MatchProblem
};

// What training compares the answers for regions with, as indices by Declare::input(). The node that makes the regions
// declares them.
struct RegionTargets {
  int labels = -1;   // (N * count) i32: 0 is background, k + 1 is class k, and -1 is no region
  int weights = -1;  // (N * count) f32: 1 / number of the image's regions
  int boxes = -1;    // (N * count) BoxCode
};

// Regions of interest of each image.
struct Regions {
  Edge table;                              // (N * count, 1, 1, 8) f32, rows are RoiRow
  std::shared_ptr<RegionTargets> targets;  // null in evaluation
};
// The regions that a dense detector of one class proposes. In training those that are sampled, and their targets.
Regions propose(Graph&, const std::string& name, const ProposeOptions&);

struct RoiPoolOptions {
  RoiKind kind = RoiKind::align;
  int bins = 7;  // along each axis
  int sampling = 2;
  bool aligned = false;
  std::vector<int64_t> strides;  // of the maps
};
// (N * count, bins, bins, C): what the maps show in each region. The last input is the table of regions.
Edge roi_pool(Graph&, const std::string& name, const std::vector<Edge>& maps, const Regions&, const RoiPoolOptions&);

struct RoiLossOptions {
  float beta = 1.0f / 9;             // of the smooth L1 loss
  int64_t hard = 0;                  // regions of an image that train, those with the largest losses; 0: all
  std::string class_name, box_name;  // of the losses
};
// Cross-entropy of the classes and smooth L1 loss of the boxes. logits: (N * count, 1, 1, classes + 1), background
// first. deltas: (N * count, 1, 1, 4 (classes + 1)), see encode_box().
void roi_loss(Graph&, Edge logits, Edge deltas, const Regions&, const RoiLossOptions&);
void detect_regions(Graph&, Edge logits, Edge deltas, const Regions&, const DetectOptions&);

}  // namespace octet
