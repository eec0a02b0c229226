// A network as coarse nodes in topological order. The functions in src/models build graphs.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  int dilation = 1;
  int64_t groups = 1;
  std::string norm = {};  // the norm's name; empty: no norm, and the convolution has a bias
  Activation activation = Activation::none;
  std::optional<Edge> residual = {};  // added before the activation
  float epsilon = 1e-5f, momentum = 0.1f;
  Init init = Init::kaiming_fan_out;
};

struct LinearOptions {
  int64_t out = 0;
  Init init = Init::linear_uniform;
  std::string norm = {};
  Activation activation = Activation::none;
  bool gives_logits = false;  // the last layer: its output is f32
};

struct PoolOptions {
  int kernel = 2, stride = 2, pad = 0;
  bool max = true;
  bool count_padding = false;  // average pooling: the mean includes the zeros of the padding, as by default in PyTorch
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
  // Cross-entropy of each head. The first head is the network's main output, and `hits` names the counts of correct
  // answers of this head. The other heads have a loss in training only.
  void softmax_loss(const std::vector<Head>& heads, float label_smoothing, const std::vector<std::string>& hits);

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
