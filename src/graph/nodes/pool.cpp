// Max and average pooling, upsampling by repetition, and ReLU of a value that no layer rectifies. Codes keep their
// scale.
#include <fmt/format.h>

#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Pool final : public NodeOf<PoolOptions> {
 public:
  using NodeOf::NodeOf;
  bool keeps_encoding() const override { return true; }
  std::string kind() const override {
    if (options_.kind == PoolKind::repeat) return fmt::format("repeat {}x{}", options_.kernel, options_.kernel);
    if (options_.kernel == 1 && options_.rectify) return "relu";
    return fmt::format("{} pool {}x{}/{}", options_.kind == PoolKind::max ? "max" : "avg", options_.kernel,
                       options_.kernel, options_.stride);
  }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    const Shape& x = options_.x = inputs[0];
    options_.y = pooled_shape(options_);
    REQUIRE_USAGE(options_.y.h > 0 && options_.y.w > 0, "use larger images", "'", name_, "' shrinks ", x.h, "x", x.w,
                  " to nothing");
    return options_.y;
  }
  void declare(Declare& d) override {
    if (options_.kind != PoolKind::max || !d.training() || !d.needs_backward()) return;
    REQUIRE_USAGE(options_.kernel <= most_choices, "use smaller windows", "'", name_, "' takes the largest of ",
                  options_.kernel, "x", options_.kernel, " values; training can number ", most_choices, "x",
                  most_choices);
    choices_ = d.keep(options_.y, DType::u8, Need::both);
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.pool_forward({options_, step.value(inputs_[0]), step.value(output_), choices(step)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.pool_backward({options_, choices(step), step.gradient(output_), step.into(inputs_[0])});
  }

 private:
  Tensor choices(const Step& step) const {
    return choices_.id < 0 || !step.training ? Tensor{} : step.tensor(choices_);
  }

  Slot choices_;
};

}  // namespace

Edge pool(Graph& graph, const std::string& name, Edge x, const PoolOptions& options) {
  return graph.add<Pool>(name, {x}, options);
}

}  // namespace octet
