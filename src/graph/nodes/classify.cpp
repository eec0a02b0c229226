// Softmax cross-entropy with label smoothing. It ends the network: its forward writes the gradients of the logits.
// Auxiliary heads (Szegedy et al. 2016, section 4) add their weighted loss while training, and nothing to the figures.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

std::vector<Edge> logits_of(const std::vector<Head>& heads) {
  std::vector<Edge> logits;
  for (const Head& head : heads) logits.push_back(head.logits);
  return logits;
}

class Classify final : public Node {
 public:
  Classify(const std::vector<Head>& heads, float smoothing)
      : Node("loss", logits_of(heads), {}), heads_(heads), smoothing_(smoothing) {}
  std::string kind() const override { return "softmax loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override { return inputs[0]; }
  bool reads_real(const Policy&, Edge) const override { return true; }
  void declare(Declare& d) override {
    for (const Head& head : heads_) reports_.push_back(d.loss(head.weight));
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    for (size_t i = 0; i < heads_.size(); ++i) {
      if (i > 0 && !step.training) break;
      const Tensor d_logits = step.training ? step.into(heads_[i].logits).tensor : Tensor{};
      step.backend.softmax_loss(step.value(heads_[i].logits).values, step.labels, step.training ? smoothing_ : 0,
                                heads_[i].weight * step.gradient_scale, d_logits, step.memory.losses + reports_[i]);
    }
  }
  void backward(Step&) override {}

 private:
  std::vector<Head> heads_;
  std::vector<int> reports_;  // by head
  float smoothing_;
};

}  // namespace

std::unique_ptr<Node> make_classify(const std::vector<Head>& heads, float label_smoothing) {
  return std::make_unique<Classify>(heads, label_smoothing);
}

}  // namespace octet
