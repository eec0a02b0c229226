// Concatenates along channels. Codes are rounded again, to the largest scale of the parts.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Concat final : public NodeOf<ConcatOptions> {
 public:
  using NodeOf::NodeOf;
  bool keeps_encoding() const override { return true; }
  std::string kind() const override { return "concat"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    Shape y = inputs[0];
    y.c = 0;
    for (const Shape& x : inputs) {
      REQUIRE(x.h == inputs[0].h && x.w == inputs[0].w, "give all branches the same stride and padding", "'", name_,
              "' joins ", inputs[0].h, "x", inputs[0].w, " with ", x.h, "x", x.w);
      y.c += x.c;
    }
    return y;
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    std::vector<QTensor> parts;
    for (Edge x : inputs_) parts.push_back(step.value(x));
    step.backend.concat_forward({parts, step.value(output_)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    std::vector<Into> parts;
    for (Edge x : inputs_) parts.push_back(step.into(x));
    step.backend.concat_backward({step.gradient(output_), parts});
  }
};

}  // namespace

Edge concat(Graph& graph, const std::string& name, const std::vector<Edge>& parts) {
  return graph.add<Concat>(name, parts, ConcatOptions{});
}

}  // namespace octet
