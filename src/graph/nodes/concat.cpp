// Concatenates along channels. Codes are rounded again, to the largest scale of the parts.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Concat final : public Node {
 public:
  Concat(std::string name, std::vector<Edge> parts, Edge y) : Node(std::move(name), std::move(parts), y) {}
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
  void declare(Declare& d) override {
    for (Edge x : inputs_)
      REQUIRE(d.encoding(x).dtype == d.encoding(output_).dtype,
              "let the policy quantize all parts of a concatenation or none", "'", name_,
              "' joins codes with real values");
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

std::unique_ptr<Node> make_concat(std::string name, std::vector<Edge> parts, Edge y) {
  return std::make_unique<Concat>(std::move(name), std::move(parts), y);
}

}  // namespace octet
