// Softmax cross-entropy with label smoothing. Its forward also writes the gradients of the logits. Auxiliary heads
// (Szegedy et al. 2016, section 4) add their weighted loss in training only.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

std::vector<Edge> logits_of(const std::vector<Head>& heads) {
  std::vector<Edge> logits;
  for (const Head& head : heads) logits.push_back(head.logits);
  return logits;
}

class SoftmaxLoss final : public Node {
 public:
  SoftmaxLoss(const std::vector<Head>& heads, float smoothing, std::vector<std::string> hits)
      : Node("loss", logits_of(heads), {}), heads_(heads), hits_(std::move(hits)), smoothing_(smoothing) {}
  std::string kind() const override { return "softmax loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override { return logits_ = inputs[0]; }
  bool reads_real(const Policy&, Edge) const override { return true; }
  bool writes_gradient_forward() const override { return true; }
  void declare(Declare& d) override {
    labels_ = d.input(size_t(logits_.n) * sizeof(int32_t));
    for (size_t i = 0; i < heads_.size(); ++i)
      reports_.push_back(d.loss(
          {.weight = heads_[i].weight, .training_only = i > 0, .hits = i == 0 ? hits_ : std::vector<std::string>{}}));
  }
  void load(const Targets& targets, Step& step) override {
    for (int64_t n = 0; n < logits_.n; ++n)
      REQUIRE(targets.labels[n] >= -1 && targets.labels[n] < logits_.c,
              "give labels in [0, classes), or -1 for padding", "sample ", n, " has label ", targets.labels[n], " of ",
              logits_.c, " classes");
    step.backend.to_device(step.memory.inputs[size_t(labels_)], targets.labels, size_t(logits_.n) * sizeof(int32_t));
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    const auto* labels = static_cast<const int32_t*>(step.memory.inputs[size_t(labels_)]);
    for (size_t i = 0; i < heads_.size(); ++i) {
      if (i > 0 && !step.training) break;
      const Tensor d_logits = step.training ? step.into(heads_[i].logits).tensor : Tensor{};
      step.backend.softmax_loss(step.value(heads_[i].logits).values, labels, nullptr, step.training ? smoothing_ : 0,
                                heads_[i].weight * step.gradient_scale, d_logits, step.memory.losses + reports_[i]);
    }
  }
  void backward(Step&) override {}
  std::vector<float> logits(const Step& step) const override {
    const Tensor logits = step.value(heads_.front().logits).values;
    std::vector<float> values(size_t(logits.elements()));
    step.backend.to_host(values.data(), logits.data, logits.bytes());
    return values;
  }

 private:
  std::vector<Head> heads_;
  std::vector<std::string> hits_;
  std::vector<int> reports_;  // by head
  Shape logits_;
  int labels_ = -1;
  float smoothing_;
};

}  // namespace

std::unique_ptr<Node> make_softmax_loss(const std::vector<Head>& heads, float label_smoothing,
                                        const std::vector<std::string>& hits) {
  return std::make_unique<SoftmaxLoss>(heads, label_smoothing, hits);
}

}  // namespace octet
