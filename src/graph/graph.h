// A network as coarse nodes in topological order. Models (models.h) are ~30-line functions that fill one.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/node.h"

namespace octet {

struct ConvOptions {
  int64_t out = 0;
  int kernel = 3, stride = 1, pad = 0, dilation = 1;
  int64_t groups = 1;
  std::string norm = {};  // the norm's name; empty: none, then the convolution has a bias
  Activation activation = Activation::none;
  std::optional<Edge> residual = {};  // added before the activation
  float epsilon = 1e-5f, momentum = 0.1f;
};

struct PoolOptions {
  int kernel = 2, stride = 2, pad = 0;
  bool max = true;
};

class Graph {
 public:
  Edge input(int64_t height, int64_t width, int64_t channels);
  Edge conv(const std::string& name, Edge x, const ConvOptions&);
  // Fully connected, with bias; x is (1, 1, C). last: its output is the network's.
  Edge linear(const std::string& name, Edge x, int64_t out, Init, bool last = true);
  Edge pool(const std::string& name, Edge x, const PoolOptions&);
  Edge global_pool(const std::string& name, Edge x);
  Edge concat(const std::string& name, const std::vector<Edge>& parts);
  void classify(Edge logits, float label_smoothing);

  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int edges() const { return edges_; }

 private:
  Edge new_edge() { return {edges_++}; }
  Edge append(std::unique_ptr<Node>);
  std::vector<std::unique_ptr<Node>> nodes_;
  int edges_ = 0;
};

}  // namespace octet
