// A network as coarse nodes in topological order. The functions in src/models build graphs.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/shared/anchors.h"
#include "src/graph/node.h"

namespace octet {

// Numbers of pixels along height and width. A single number stands for both.
struct Extent {
  int h = 0, w = 0;
  constexpr Extent(int both) : h(both), w(both) {}
  constexpr Extent(int height, int width) : h(height), w(width) {}
};

struct ConvOptions {
  int64_t out = 0;
  Extent kernel = 3;
  int stride = 1;
  Extent pad = 0;
  bool same = false;  // "SAME" padding in place of `pad`, see same_padding()
  int dilation = 1;
  int64_t groups = 1;
  std::string norm = {};  // the norm's name; empty: no norm, and the convolution has a bias
  Activation activation = Activation::none;
  std::optional<Edge> residual = {};  // added before the activation
  float epsilon = 1e-5f, momentum = 0.1f;
  Init init = Init::kaiming_fan_out, bias_init = Init::zero;
  std::string layer = {};     // whose parameters it has; nodes of one layer share them. Empty: the node is a layer
  bool gives_logits = false;  // a last layer: its output is f32
  bool of_classes = false;    // its outputs belong to classes, so another number of classes needs another layer
  bool frozen = false;        // its parameters are never trained
  bool frozen_norm = false;   // its norm is never trained, and normalizes by the running statistics
};

struct LinearOptions {
  int64_t out = 0;
  Init init = Init::linear_uniform;
  std::string norm = {};
  Activation activation = Activation::none;
  bool gives_logits = false;  // the last layer: its output is f32 and belongs to classes
};

struct PoolOptions {
  int kernel = 2, stride = 2, pad = 0;
  PoolKind kind = PoolKind::max;
  bool rectify = false;        // the maximum is at least 0
  bool count_padding = false;  // average pooling: the mean includes the zeros of the padding, as by default in PyTorch
};

// One level of a dense detector's answers for its anchors. The nodes set the height and width of the anchors' map.
struct DenseLevel {
  Edge logits;  // (N, H, W, anchors * classes)
  Edge deltas;  // (N, H, W, anchors * 4), see encode_box()
  AnchorLevel anchors;
};

// How the answers for anchors become a loss.
struct DenseLossOptions {
  std::string node = "loss";               // the name of the node
  int classes = 1;                         // 1: there are objects and background, whatever the classes of the objects
  float positive = 0.5f, negative = 0.4f;  // see MatchProblem
  float alpha = 0.25f, gamma = 2;          // of the focal loss, see SigmoidProblem
  float beta = 0;                          // of the smooth L1 loss; 0: L1
  int64_t samples = 0;                     // anchors of an image that train, chosen at random; 0: all
  float fraction = 0.5f;                   // of them, at most, find an object
  std::string class_name, box_name;        // of the losses
};

// How the answers for anchors become proposals, and in training how a choice of these finds objects.
struct ProposeOptions {
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

struct RoiPoolOptions {
  RoiKind kind = RoiKind::align;
  int bins = 7;  // along each axis
  int sampling = 2;
  bool aligned = false;
  std::vector<int64_t> strides;  // of the maps
};

struct RoiLossOptions {
  float beta = 1.0f / 9;             // of the smooth L1 loss
  int64_t hard = 0;                  // regions of an image that train, those with the largest losses; 0: all
  std::string class_name, box_name;  // of the losses
};

// How the answers become detections.
struct DetectOptions {
  int classes = 1;
  float score = 0.05f;       // the least score
  float overlap = 0.5f;      // of two boxes of a class; the one with the lower score is dropped beyond it
  int64_t of_level = 1000;   // the best answers of a level that are considered
  int64_t detections = 100;  // of an image
};

// An output of the network that has a loss, and the weight of that loss.
struct Head {
  Edge logits;
  float weight = 1;
};

class Graph {
 public:
  // The policy decides which node computes a convolution. The policy must outlive the graph.
  explicit Graph(const Policy& policy) : policy_(policy) {}
  Edge input(int64_t height, int64_t width, int64_t channels);
  int64_t side() const { return side_; }  // the longer side of the images, in pixels
  Edge conv(const std::string& name, Edge x, const ConvOptions&);
  // A fully connected layer with a bias or a norm. The layer reads all pixels of an image. In files, its weights have
  // torchvision's order (C, H, W).
  Edge linear(const std::string& name, Edge x, const LinearOptions&);
  Edge pool(const std::string& name, Edge x, const PoolOptions&);
  Edge global_pool(const std::string& name, Edge x);
  Edge concat(const std::string& name, const std::vector<Edge>& parts);
  // In training, each element becomes 0 with probability `rate`, and the others are multiplied by 1 / (1 - rate).
  Edge dropout(const std::string& name, Edge x, float rate);  // rate 0: returns x
  // Focal loss of the classes and smooth L1 loss of the boxes, over all levels.
  void dense_loss(const std::vector<DenseLevel>& levels, const DenseLossOptions&);
  void detect(const std::vector<DenseLevel>& levels, const DetectOptions&);
  // The regions that a dense detector of one class proposes. In training those that are sampled, and their targets.
  Regions propose(const std::string& name, const std::vector<DenseLevel>& levels, const ProposeOptions&);
  // (N * count, bins, bins, C): what the maps show in each region.
  Edge roi_pool(const std::string& name, const std::vector<Edge>& maps, const Regions&, const RoiPoolOptions&);
  // Cross-entropy of the classes and smooth L1 loss of the boxes. logits: (N * count, 1, 1, classes + 1), background
  // first. deltas: (N * count, 1, 1, 4 (classes + 1)), see encode_box().
  void roi_loss(Edge logits, Edge deltas, const Regions&, const RoiLossOptions&);
  void detect_regions(Edge logits, Edge deltas, const Regions&, const DetectOptions&);
  // Cross-entropy of each head. The first head is the network's main output, and `hits` names the counts of correct
  // answers of this head. The other heads have a loss in training only. mixed: samples may be mixed of two, see
  // Targets.
  void softmax_loss(const std::vector<Head>& heads, float label_smoothing, const std::vector<std::string>& hits,
                    bool mixed = false);

  // Freezes all layers from the first one to the last one of `stage`, which is a beginning of names of layers, such as
  // "layer3". UsageError: no layer has such a name, or none is left that trains.
  void freeze_through(const std::string& stage);

  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int edges() const { return edges_; }

 private:
  Edge new_edge() { return {edges_++}; }
  Edge append(std::unique_ptr<Node>);
  const Policy& policy_;
  std::vector<std::unique_ptr<Node>> nodes_;
  int edges_ = 0;
  int64_t side_ = 0;
};

}  // namespace octet
