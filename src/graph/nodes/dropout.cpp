// Inverted dropout (Srivastava et al. 2014): kept elements are scaled up, so evaluation is the identity. The choice of
// dropped elements is a function of (seed, step, node, global element). It is the same on any number of ranks and after
// a resume.
#include <fmt/format.h>

#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Dropout final : public Node {
 public:
  Dropout(std::string name, Edge x, Edge y, float rate) : Node(std::move(name), {x}, y), rate_(rate) {}
  bool keeps_encoding() const override { return true; }
  std::string kind() const override { return fmt::format("dropout {}", rate_); }
  Shape output_shape(const std::vector<Shape>& inputs) override { return inputs[0]; }
  void declare(Declare& d) override {
    per_sample_ = d.shape(output_).elements() / d.images();
    REQUIRE(d.encoding(inputs_[0]).dtype == d.encoding(output_).dtype,
            "let the policy quantize all readers of that value or none", "'", name_,
            "' would change its values' encoding");
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.dropout_forward({step.value(inputs_[0]), step.training ? rate_ : 0, key(step), step.value(output_)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.dropout_backward({step.gradient(output_), rate_, key(step), step.into(inputs_[0])});
  }

 private:
  RngKey key(const Step& step) const { return step.key(index_, Role::activation, per_sample_); }
  float rate_;
  int64_t per_sample_ = 1;
};

}  // namespace

std::unique_ptr<Node> make_dropout(std::string name, Edge x, Edge y, float rate) {
  return std::make_unique<Dropout>(std::move(name), x, y, rate);
}

}  // namespace octet
