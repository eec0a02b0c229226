#include "src/graph/graph.h"

#include <algorithm>

#include "src/graph/nodes/nodes.h"

namespace octet {

Edge Graph::append(std::unique_ptr<Node> node) {
  streams::require_room(nodes_.size() + 1, streams::most_nodes, "nodes");
  node->set_index(static_cast<int>(nodes_.size()));
  nodes_.push_back(std::move(node));
  return nodes_.back()->output();
}

Edge Graph::input(int64_t height, int64_t width, int64_t channels) {
  side_ = std::max(height, width);
  return append(make_input(height, width, channels, new_edge()));
}

Edge Graph::conv(const std::string& name, Edge x, const ConvOptions& options) {
  ConvBlockOptions block{options};
  block.reads_input = x.id == nodes_.front()->output().id;
  std::vector<Edge> inputs{x};
  if (options.residual) inputs.push_back(*options.residual);
  return append(make_conv_block(policy_, name, inputs, new_edge(), block));
}

Edge Graph::linear(const std::string& name, Edge x, const LinearOptions& options) {
  ConvBlockOptions block{
      {.out = options.out, .norm = options.norm, .activation = options.activation, .init = options.init}};
  block.linear = true;
  block.gives_logits = block.of_classes = options.gives_logits;
  return append(make_conv_block(policy_, name, {x}, new_edge(), block));
}

Edge Graph::pool(const std::string& name, Edge x, const PoolOptions& options) {
  return append(make_pool(name, x, new_edge(), options));
}

Edge Graph::global_pool(const std::string& name, Edge x) { return append(make_global_pool(name, x, new_edge())); }

Edge Graph::concat(const std::string& name, const std::vector<Edge>& parts) {
  return append(make_concat(name, parts, new_edge()));
}

Edge Graph::dropout(const std::string& name, Edge x, float rate) {
  return rate > 0 ? append(make_dropout(name, x, new_edge(), rate)) : x;
}

void Graph::dense_loss(const std::vector<DenseLevel>& levels, const DenseLossOptions& options) {
  append(make_dense_loss(levels, options));
}

void Graph::detect(const std::vector<DenseLevel>& levels, const DetectOptions& options) {
  append(make_detect(levels, options));
}

Regions Graph::propose(const std::string& name, const std::vector<DenseLevel>& levels, const ProposeOptions& options) {
  Regions regions{new_edge(), options.training ? std::make_shared<RegionTargets>() : nullptr};
  append(make_propose(name, levels, regions, options));
  return regions;
}

Edge Graph::roi_pool(const std::string& name, const std::vector<Edge>& maps, const Regions& regions,
                     const RoiPoolOptions& options) {
  std::vector<Edge> inputs = maps;
  inputs.push_back(regions.table);
  return append(make_roi_pool(name, inputs, new_edge(), options));
}

void Graph::roi_loss(Edge logits, Edge deltas, const Regions& regions, const RoiLossOptions& options) {
  append(make_roi_loss(logits, deltas, regions, options));
}

void Graph::detect_regions(Edge logits, Edge deltas, const Regions& regions, const DetectOptions& options) {
  append(make_detect_regions(logits, deltas, regions, options));
}

void Graph::softmax_loss(const std::vector<Head>& heads, float label_smoothing, const std::vector<std::string>& hits,
                         bool mixed) {
  append(make_softmax_loss(heads, label_smoothing, hits, mixed));
}

void Graph::freeze_through(const std::string& stage) {
  const auto belongs = [&](const std::unique_ptr<Node>& node) {
    return node->trains() && (node->name() == stage || node->name().starts_with(stage + "."));
  };
  const auto last = std::find_if(nodes_.rbegin(), nodes_.rend(), belongs).base();
  std::vector<std::string> stages;  // beginnings of names
  for (const auto& node : nodes_) {
    std::string first = node->name().substr(0, node->name().find('.'));
    if (node->trains() && (stages.empty() || stages.back() != first)) stages.push_back(std::move(first));
  }
  const std::string known = joined(stages, ", ");
  REQUIRE_USAGE(last != nodes_.begin(), say("name one of ", known, ", or a layer as `octet plan` prints it"),
                "train.freeze is `", stage, "`, and no layer has a name that begins so");
  REQUIRE_USAGE(std::any_of(last, nodes_.end(), [](const auto& node) { return node->trains(); }),
                say("name an earlier one of ", known), "train.freeze is `", stage, "`, behind which no layer trains");
  std::for_each(nodes_.begin(), last, [](const auto& node) { node->freeze(); });
}

}  // namespace octet
