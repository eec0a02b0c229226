// Pools of regions: what the maps of a backbone show in each region. Codes are rounded again, to the largest scale of
// the maps. No gradient reaches the coordinates of the regions.
#include <fmt/format.h>

#include "src/graph/nodes/detection.h"

namespace octet {
namespace {

class RoiPool final : public NodeOf<RoiPoolOptions> {
 public:
  using NodeOf::NodeOf;
  bool keeps_encoding() const override { return true; }
  bool reads_real(const Policy&, Edge edge) const override { return edge.id == table().id; }
  std::string kind() const override {
    const char* const names[] = {"RoI align", "RoI max", "PS RoI"};  // by RoiKind
    return fmt::format("{} {}x{}", names[size_t(options_.kind)], options_.bins, options_.bins);
  }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    const int64_t bins = options_.bins, rows = inputs.back().n;
    pool_ = {.kind = options_.kind,
             .levels = {inputs.begin(), inputs.end() - 1},
             .scales = {},
             .y = {rows, bins, bins, inputs[0].c / (options_.kind == RoiKind::position_sensitive ? bins * bins : 1)},
             .rois = rows / inputs[0].n,
             .sampling = options_.sampling,
             .aligned = options_.aligned};
    for (const int64_t stride : options_.strides) pool_.scales.push_back(1 / float(stride));
    REQUIRE(!pool_.levels.empty() && pool_.levels.size() == pool_.scales.size(), "give a stride for each map", "'",
            name_, "' has ", pool_.levels.size(), " maps and ", pool_.scales.size(), " strides");
    return pool_.y;
  }
  void declare(Declare& d) override {
    for (const Edge map : maps()) needs_gradient_.push_back(d.needs_gradient(map));
    d.reads_in_backward(table());
    if (pool_.kind != RoiKind::max) return;
    for (const Edge map : maps()) d.reads_in_backward(map);
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.roi_pool_forward({pool_, values(step), step.value(table()).values, step.value(output_)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    std::vector<Into> into;
    for (size_t i = 0; i < needs_gradient_.size(); ++i)
      into.push_back(needs_gradient_[i] ? step.into(maps()[i]) : Into{});
    step.backend.roi_pool_backward({pool_, values(step), step.value(table()).values, step.gradient(output_), into});
  }

 private:
  std::span<const Edge> maps() const { return std::span(inputs_).first(inputs_.size() - 1); }
  Edge table() const { return inputs_.back(); }
  std::vector<QTensor> values(const Step& step) const {
    std::vector<QTensor> values;
    for (const Edge map : maps()) values.push_back(step.value(map));
    return values;
  }

  RoiProblem pool_;
  std::vector<bool> needs_gradient_;  // by map
};

}  // namespace

Edge roi_pool(Graph& graph, const std::string& name, const std::vector<Edge>& maps, const Regions& regions,
              const RoiPoolOptions& options) {
  std::vector<Edge> inputs = maps;
  inputs.push_back(regions.table);
  return graph.add<RoiPool>(name, inputs, options);
}

}  // namespace octet
