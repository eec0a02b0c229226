// The layers of a network. Each function appends a node and returns its output. Each kind of node is one .cpp file in
// this folder; its options are also its attributes, see Node::as().
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace octet {

struct InputOptions {
  int64_t height = 0, width = 0, channels = 3;
};
Edge input(Graph&, const InputOptions&);  // the first node
int64_t side_of_images(const Graph&);     // the longer one, in pixels

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
  std::optional<Edge> residual = {};  // added before the activation; the second input
  float epsilon = 1e-5f, momentum = 0.1f;
  std::optional<Init> init = {};  // none: kaiming_fan_out, of a linear layer linear_uniform
  Init bias_init = Init::zero;
  std::string layer = {};     // whose parameters it has; nodes of one layer share them. Empty: the node is a layer
  bool gives_logits = false;  // a last layer: its output is f32
  bool of_classes = false;    // its outputs belong to classes, so another number of classes needs another layer
  bool frozen = false;        // its parameters are never trained
  bool frozen_norm = false;   // its norm is never trained, and normalizes by the running statistics
  bool linear = false;        // see linear(); the weight is a matrix, and the node sets the kernel
};
// y = encode(activation(norm(conv(x)) + residual)). A simulated policy has a node of its own, with the same options.
Edge conv(Graph&, const std::string& name, Edge x, const ConvOptions&);

// A fully connected layer: conv() with a kernel that covers the image. Its logits belong to classes. In files, its
// weights have torchvision's order (C, H, W).
Edge linear(Graph&, const std::string& name, Edge x, ConvOptions);

using PoolOptions = PoolProblem;  // the node sets x and y
Edge pool(Graph&, const std::string& name, Edge x, const PoolOptions&);

struct GlobalPoolOptions {};
Edge global_pool(Graph&, const std::string& name, Edge x);

struct ConcatOptions {};
Edge concat(Graph&, const std::string& name, const std::vector<Edge>& parts);

struct DropoutOptions {
  float rate = 0;
};
// In training, each element becomes 0 with probability `rate`, and the others are multiplied by 1 / (1 - rate).
Edge dropout(Graph&, const std::string& name, Edge x, const DropoutOptions&);  // rate 0: returns x

// An output of the network that has a loss, and the weight of that loss.
struct Head {
  Edge logits;
  float weight = 1;
};
// Cross-entropy of each head.
struct SoftmaxLossOptions {
  std::vector<Head> heads;  // the first is the network's main output; the others have a loss in training only
  float label_smoothing = 0;
  std::vector<std::string> hits = {};  // names of the counts of correct answers of the first head
  bool mixed = false;                  // samples may be mixed of two, see Targets
};
void softmax_loss(Graph&, const SoftmaxLossOptions&);

}  // namespace octet
