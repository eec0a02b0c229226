// Softmax cross-entropy with label smoothing. Its forward also writes the gradients of the logits. Auxiliary heads
// (Szegedy et al. 2016, section 4) add their weighted loss in training only. A sample that is mixed of two has the loss
// share x (loss of its class) + (1 - share) x (loss of the other's class).
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class SoftmaxLoss final : public NodeOf<SoftmaxLossOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "softmax loss"; }
  Shape output_shape(const std::vector<Shape>& inputs) override { return logits_ = inputs[0]; }
  bool reads_real(const Policy&, Edge) const override { return true; }
  bool writes_gradient_forward() const override { return true; }
  void declare(Declare& d) override {
    const size_t numbers = size_t(logits_.n) * sizeof(float);
    labels_ = d.input(numbers);
    if (options_.mixed) {
      other_labels_ = d.input(numbers);
      shares_ = d.input(numbers);
      other_shares_ = d.input(numbers);
      other_gradient_ = d.input(size_t(logits_.n * logits_.c) * sizeof(float));
    }
    for (size_t i = 0; i < options_.heads.size(); ++i) {
      const bool auxiliary = i > 0;
      reports_.push_back(d.loss({.weight = options_.heads[i].weight,
                                 .training_only = auxiliary,
                                 .hits = auxiliary ? std::vector<std::string>{} : options_.hits}));
      if (options_.mixed) other_reports_.push_back(d.loss({.weight = options_.heads[i].weight, .training_only = true}));
    }
  }
  void load(const Targets& targets, Step& step) override {
    send_labels(targets.labels, labels_, step);
    if (!options_.mixed) return;
    REQUIRE(targets.other_labels && targets.shares, "let the loader mix samples",
            "a loss of mixed samples has no shares");
    send_labels(targets.other_labels, other_labels_, step);
    std::vector<float> others;
    for (int64_t n = 0; n < logits_.n; ++n) others.push_back(1 - targets.shares[n]);
    const size_t bytes = size_t(logits_.n) * sizeof(float);
    step.backend.to_device(step.memory.inputs[size_t(shares_)], targets.shares, bytes);
    step.backend.to_device(step.memory.inputs[size_t(other_shares_)], others.data(), bytes);
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::forward);
    for (size_t i = 0; i < options_.heads.size(); ++i) {
      if (i > 0 && !step.training) break;
      const Tensor d_logits = step.training ? step.into(options_.heads[i].logits).tensor : Tensor{};
      compare(step, i, labels_, shares_, d_logits, reports_[i]);
      if (!options_.mixed) continue;
      const Tensor other{step.memory.inputs[size_t(other_gradient_)], logits_, DType::f32};
      compare(step, i, other_labels_, other_shares_, other, other_reports_[i]);
      const Into sum[] = {{d_logits, true}};
      step.backend.concat_backward({other, sum});
    }
  }
  std::vector<float> logits(const Step& step) const override {
    const Tensor logits = step.value(options_.heads.front().logits).values;
    std::vector<float> values(size_t(logits.elements()));
    step.backend.to_host(values.data(), logits.data, logits.bytes());
    return values;
  }

 private:
  void send_labels(const int32_t* labels, int input, Step& step) const {
    for (int64_t n = 0; n < logits_.n; ++n)
      REQUIRE(labels[n] >= -1 && labels[n] < logits_.c, "give labels in [0, classes), or -1 for padding", "sample ", n,
              " has label ", labels[n], " of ", logits_.c, " classes");
    step.backend.to_device(step.memory.inputs[size_t(input)], labels, size_t(logits_.n) * sizeof(int32_t));
  }
  void compare(Step& step, size_t head, int labels, int weights, Tensor gradient, int report) const {
    const auto& inputs = step.memory.inputs;
    step.backend.softmax_loss(
        {step.value(options_.heads[head].logits).values, static_cast<const int32_t*>(inputs[size_t(labels)]),
         weights < 0 ? nullptr : static_cast<const float*>(inputs[size_t(weights)]),
         step.training ? options_.label_smoothing : 0, options_.heads[head].weight * step.gradient_scale, gradient,
         step.memory.losses + report});
  }

  std::vector<int> reports_, other_reports_;  // by head
  Shape logits_;
  int labels_ = -1, other_labels_ = -1, shares_ = -1, other_shares_ = -1, other_gradient_ = -1;  // -1: not mixed
};

}  // namespace

void softmax_loss(Graph& graph, const SoftmaxLossOptions& options) {
  std::vector<Edge> logits;
  for (const Head& head : options.heads) logits.push_back(head.logits);
  graph.append(std::make_unique<SoftmaxLoss>("loss", logits, Edge{}, options));
}

}  // namespace octet
