// A network as coarse nodes in topological order. The functions in src/graph/nodes append nodes, and those in
// src/models build graphs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/graph/node.h"

namespace octet {

class Graph {
 public:
  // The policy decides which node computes a convolution. The policy must outlive the graph.
  explicit Graph(const Policy& policy) : policy_(policy) {}
  const Policy& policy() const { return policy_; }

  Edge new_edge() { return {edges_++}; }
  // Appends a node whose inputs are outputs of earlier nodes, and returns its output.
  Edge append(std::unique_ptr<Node>);
  // Appends a node with a new edge as its output.
  template <class NodeClass, class... Arguments>
  Edge add(const std::string& name, std::vector<Edge> inputs, Arguments&&... arguments) {
    return append(
        std::make_unique<NodeClass>(name, std::move(inputs), new_edge(), std::forward<Arguments>(arguments)...));
  }

  // Freezes all layers from the first one to the last one of `stage`, which is a beginning of names of layers, such as
  // "layer3". UsageError: no layer has such a name, or none is left that trains.
  void freeze_through(const std::string& stage);
  // What can be frozen through, in the order of the layers: the first part of their names, with a number behind it.
  std::vector<std::string> stages() const;

  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int edges() const { return edges_; }

 private:
  const Policy& policy_;
  std::vector<std::unique_ptr<Node>> nodes_;
  int edges_ = 0;
};

}  // namespace octet
