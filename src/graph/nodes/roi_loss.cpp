// The loss of the answers for regions: cross-entropy of the classes and smooth L1 loss of the boxes (Girshick, "Fast
// R-CNN", ICCV 2015, equation 1). Each image's losses are divided by the number of its regions, so the gradient does
// not depend on the other images. Forward also writes the gradients.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class RoiLoss final : public Node {
 public:
  RoiLoss(Edge logits, Edge deltas, const Regions& regions, const RoiLossOptions& options)
      : Node("loss", {logits, deltas}, {}), options_(options), targets_(regions.targets) {}
  std::string kind() const override { return "region loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    choices_ = int(inputs[1].c / 4);
    REQUIRE(inputs[0].n == inputs[1].n && inputs[1].c == int64_t{choices_} * 4, "give four deltas for each box",
            "regions have ", inputs[0].c, " logits and ", inputs[1].c, " deltas");
    return {};
  }
  bool reads_real(const Policy&, Edge) const override { return true; }
  bool writes_gradient_forward() const override { return true; }
  void declare(Declare& d) override {
    REQUIRE(targets_ && targets_->labels >= 0, "let a node propose regions for training first",
            "a loss has regions without targets");
    class_report_ = d.loss({.name = options_.class_name});
    box_report_ = d.loss({.name = options_.box_name});
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    const auto* labels = static_cast<const int32_t*>(step.memory.inputs[size_t(targets_->labels)]);
    const auto* weights = static_cast<const float*>(step.memory.inputs[size_t(targets_->weights)]);
    void* const boxes = step.memory.inputs[size_t(targets_->boxes)];
    const Tensor logits = step.value(inputs_[0]).values, deltas = step.value(inputs_[1]).values;
    step.backend.softmax_loss(logits, labels, weights, 0, step.gradient_scale, step.into(inputs_[0]).tensor,
                              step.memory.losses + class_report_);
    step.backend.box_loss({.choices = choices_, .beta = options_.beta}, deltas,
                          {boxes, {deltas.shape.n, 1, 1, 4}, DType::f32}, labels, weights, step.gradient_scale,
                          step.into(inputs_[1]).tensor, step.memory.losses + box_report_);
  }
  void backward(Step&) override {}

 private:
  RoiLossOptions options_;
  std::shared_ptr<const RegionTargets> targets_;
  int choices_ = 1;  // boxes of a region: one for background and each class, or one for all classes
  int class_report_ = -1, box_report_ = -1;
};

}  // namespace

std::unique_ptr<Node> make_roi_loss(Edge logits, Edge deltas, const Regions& regions, const RoiLossOptions& options) {
  return std::make_unique<RoiLoss>(logits, deltas, regions, options);
}

}  // namespace octet
