// Inverted dropout (Srivastava et al. 2014): kept elements are scaled up, so evaluation is the identity. The choice of
// dropped elements is a function of (seed, step, node, global element). It is the same on any number of ranks and after
// a resume.
#include <fmt/format.h>

#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Dropout final : public NodeOf<DropoutOptions> {
 public:
  using NodeOf::NodeOf;
  bool keeps_encoding() const override { return true; }
  std::string kind() const override { return fmt::format("dropout {}", options_.rate); }
  Shape output_shape(const std::vector<Shape>& inputs) override { return inputs[0]; }
  void declare(Declare& d) override { per_sample_ = d.shape(output_).elements() / d.images(); }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.dropout_forward(
        {step.value(inputs_[0]), step.training ? options_.rate : 0, key(step), step.value(output_)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.dropout_backward({step.gradient(output_), options_.rate, key(step), step.into(inputs_[0])});
  }

 private:
  RngKey key(const Step& step) const { return step.key(index_, Role::activation, per_sample_); }
  int64_t per_sample_ = 1;
};

}  // namespace

Edge dropout(Graph& graph, const std::string& name, Edge x, const DropoutOptions& options) {
  return options.rate > 0 ? graph.add<Dropout>(name, {x}, options) : x;
}

}  // namespace octet
