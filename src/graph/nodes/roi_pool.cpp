// Pools of regions: what the maps of a backbone show in each region. Codes are rounded again, to the largest scale of
// the maps. No gradient reaches the coordinates of the regions.
#include <fmt/format.h>

#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class RoiPool final : public Node {
 public:
  RoiPool(std::string name, std::vector<Edge> inputs, Edge y, const RoiPoolOptions& options)
      : Node(std::move(name), std::move(inputs), y), bins_(options.bins) {
    pool_.kind = options.kind;
    pool_.sampling = options.sampling;
    pool_.aligned = options.aligned;
    for (const int64_t stride : options.strides) pool_.scales.push_back(1 / float(stride));
  }
  bool keeps_encoding() const override { return true; }
  bool reads_real(const Policy&, Edge edge) const override { return edge.id == table().id; }
  std::string kind() const override {
    const char* const name = pool_.kind == RoiKind::align ? "RoI align"
                             : pool_.kind == RoiKind::max ? "RoI max"
                                                          : "PS RoI";
    return fmt::format("{} {}x{}", name, bins_, bins_);
  }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    pool_.levels.assign(inputs.begin(), inputs.end() - 1);
    REQUIRE(!pool_.levels.empty() && pool_.levels.size() == pool_.scales.size(), "give a stride for each map", "'",
            name_, "' has ", pool_.levels.size(), " maps and ", pool_.scales.size(), " strides");
    const int64_t parts = pool_.kind == RoiKind::position_sensitive ? bins_ * bins_ : 1;
    pool_.rois = inputs.back().n / inputs[0].n;
    return pool_.y = {inputs.back().n, bins_, bins_, inputs[0].c / parts};
  }
  void declare(Declare& d) override {
    for (const Edge map : maps()) {
      REQUIRE(d.encoding(map).dtype == d.encoding(output_).dtype,
              "let the policy quantize all readers of the maps or none", "'", name_,
              "' would change its values' encoding");
      needs_gradient_.push_back(d.needs_gradient(map));
    }
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
  int64_t bins_;
  std::vector<bool> needs_gradient_;  // by map
};

}  // namespace

std::unique_ptr<Node> make_roi_pool(std::string name, std::vector<Edge> maps_and_table, Edge y,
                                    const RoiPoolOptions& options) {
  return std::make_unique<RoiPool>(std::move(name), std::move(maps_and_table), y, options);
}

}  // namespace octet
