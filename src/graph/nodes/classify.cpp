// Softmax cross-entropy with label smoothing. It ends the network: its forward writes the logits' gradient.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Classify final : public Node {
 public:
  Classify(Edge logits, float smoothing) : Node("loss", {logits}, {}), smoothing_(smoothing) {}
  std::string kind() const override { return "softmax loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override { return inputs[0]; }
  bool reads_real(const Policy&, Edge) const override { return true; }
  void declare(Declare&) override {}
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    const Tensor d_logits = step.training ? step.into(inputs_[0]).tensor : Tensor{};
    step.loss = step.backend.softmax_loss(step.value(inputs_[0]).values, step.labels, step.training ? smoothing_ : 0,
                                          step.gradient_scale, d_logits);
  }
  void backward(Step&) override {}

 private:
  float smoothing_;
};

}  // namespace

std::unique_ptr<Node> make_classify(Edge logits, float label_smoothing) {
  return std::make_unique<Classify>(logits, label_smoothing);
}

}  // namespace octet
