// The loss of the answers for regions: cross-entropy of the classes and smooth L1 loss of the boxes (Girshick, "Fast
// R-CNN", ICCV 2015, equation 1). Each image's losses are divided by the number of its regions, so the gradient does
// not depend on the other images. Of each image, all regions train, or those with the largest losses (Shrivastava et
// al., "Training region-based object detectors with online hard example mining", CVPR 2016). Forward also writes the
// gradients.
#include <algorithm>
#include <limits>

#include "kernels/shared/losses.h"
#include "src/graph/nodes/detection.h"

namespace octet {
namespace {

class RoiLoss final : public NodeOf<RoiLossOptions> {
 public:
  RoiLoss(Edge logits, Edge deltas, const Regions& regions, const RoiLossOptions& options)
      : NodeOf("loss", {logits, deltas}, {}, options), targets_(regions.targets) {}
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
    images_ = d.images();
    class_report_ = d.loss({.name = options_.class_name});
    box_report_ = d.loss({.name = options_.box_name, .compared = "regions_found"});
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    if (options_.hard > 0) keep_hard(step);
    const auto* labels = static_cast<const int32_t*>(step.memory.inputs[size_t(targets_->labels)]);
    const auto* weights = static_cast<const float*>(step.memory.inputs[size_t(targets_->weights)]);
    const Tensor logits = step.value(inputs_[0]).values, deltas = step.value(inputs_[1]).values;
    const Tensor boxes{step.memory.inputs[size_t(targets_->boxes)], {deltas.shape.n, 1, 1, 4}, DType::f32};
    step.backend.softmax_loss({logits, labels, weights, 0, step.gradient_scale, step.into(inputs_[0]).tensor,
                               step.memory.losses + class_report_});
    const BoxLossProblem box{.choices = choices_, .beta = options_.beta};
    step.backend.box_loss({box, deltas, boxes, labels, weights, step.gradient_scale, step.into(inputs_[1]).tensor,
                           step.memory.losses + box_report_});
  }

 private:
  // Weighs the regions with the largest losses of each image, and no others.
  void keep_hard(const Step& step) const {
    const Tensor logits = step.value(inputs_[0]).values, deltas = step.value(inputs_[1]).values;
    const auto target = [&](int input, int64_t floats) {
      return Tensor{step.memory.inputs[size_t(input)], {logits.shape.n, 1, 1, floats}, DType::f32};
    };
    const Tensor reads[] = {logits, deltas, target(targets_->labels, 1), target(targets_->boxes, 4)};
    const Tensor writes[] = {target(targets_->weights, 1)};
    step.backend.on_host(reads, writes, [this](auto from, auto to, const StepState&) { weigh_hard(from, to[0]); });
  }

  void weigh_hard(std::span<const Tensor> from, const Tensor& weights) const {
    const size_t rows = size_t(weights.shape.n), of_image = rows / size_t(images_);
    const int64_t classes = from[0].shape.c;
    const std::span labels(from[2].as<int32_t>(), rows);
    std::vector<float> losses(rows, -std::numeric_limits<float>::infinity());
    for (size_t row = 0; row < rows; ++row) {
      if (labels[row] < 0) continue;
      const int64_t choice = choices_ > 1 ? labels[row] : 0;
      const float* const predicted = from[1].f32() + (int64_t(row) * choices_ + choice) * 4;
      losses[row] = loss_of({from[0].f32() + int64_t(row) * classes, size_t(classes)}, size_t(labels[row]), predicted,
                            from[3].f32() + row * 4);
    }
    std::fill_n(weights.f32(), rows, 0.0f);
    for (size_t image = 0; image < size_t(images_); ++image) {
      const std::span own = std::span(losses).subspan(image * of_image, of_image);
      const std::vector<int32_t> kept = top_scores(own, options_.hard);
      for (const int32_t i : kept) weights.f32()[image * of_image + size_t(i)] = 1 / float(kept.size());
    }
  }

  // Of one region, whose label is 0 for background.
  float loss_of(std::span<const float> logits, size_t label, const float* predicted, const float* wanted) const {
    const double largest = double(*std::ranges::max_element(logits));
    double sum = 0;
    for (const float logit : logits) sum += exponential(double(logit) - largest);
    double loss = natural_log(sum) - (double(logits[label]) - largest);
    for (int i = 0; label > 0 && i < 4; ++i)
      loss += smooth_l1_term(double(predicted[i]) - double(wanted[i]), double(options_.beta)).loss;
    return float(loss);
  }

  std::shared_ptr<const RegionTargets> targets_;
  int64_t images_ = 1;
  int choices_ = 1;  // boxes of a region: one for background and each class, or one for all classes
  int class_report_ = -1, box_report_ = -1;
};

}  // namespace

void roi_loss(Graph& graph, Edge logits, Edge deltas, const Regions& regions, const RoiLossOptions& options) {
  graph.append(std::make_unique<RoiLoss>(logits, deltas, regions, options));
}

}  // namespace octet
