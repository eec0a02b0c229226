#include "src/graph/graph.h"

#include <algorithm>

namespace octet {

Edge Graph::append(std::unique_ptr<Node> node) {
  streams::require_room(nodes_.size() + 1, streams::most_nodes, "nodes");
  node->set_index(static_cast<int>(nodes_.size()));
  nodes_.push_back(std::move(node));
  return nodes_.back()->output();
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

std::vector<std::string> Graph::stages() const {
  std::vector<std::string> all;
  for (const auto& node : nodes_) {
    if (!node->trains()) continue;
    const std::string& name = node->name();
    size_t end = name.find('.');
    if (end != name.npos && end + 1 < name.size() && name[end + 1] >= '0' && name[end + 1] <= '9')
      end = name.find('.', end + 1);
    if (std::string stage = name.substr(0, end); all.empty() || all.back() != stage) all.push_back(std::move(stage));
  }
  return all;
}

}  // namespace octet
