// Max and average pooling, upsampling by repetition, and ReLU of a value that no layer rectifies. Codes keep their
// scale.
#include <fmt/format.h>

#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Pool final : public Node {
 public:
  Pool(std::string name, Edge x, Edge y, const PoolOptions& options) : Node(std::move(name), {x}, y) {
    pool_.kernel = options.kernel;
    pool_.stride = options.stride;
    pool_.pad = options.pad;
    pool_.kind = options.kind;
    pool_.rectify = options.rectify;
    pool_.count_padding = options.count_padding;
  }
  bool keeps_encoding() const override { return true; }
  std::string kind() const override {
    if (pool_.kind == PoolKind::repeat) return fmt::format("repeat {}x{}", pool_.kernel, pool_.kernel);
    if (pool_.kernel == 1 && pool_.rectify) return "relu";
    return fmt::format("{} pool {}x{}/{}", pool_.kind == PoolKind::max ? "max" : "avg", pool_.kernel, pool_.kernel,
                       pool_.stride);
  }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    const Shape& x = pool_.x = inputs[0];
    pool_.y = pooled_shape(pool_);
    REQUIRE(pool_.y.h > 0 && pool_.y.w > 0, "use larger images", "'", name_, "' shrinks ", x.h, "x", x.w,
            " to nothing");
    return pool_.y;
  }
  void declare(Declare& d) override {
    REQUIRE(d.encoding(inputs_[0]).dtype == d.encoding(output_).dtype,
            "let the policy quantize all readers of a pool or none", "'", name_, "' would change its values' encoding");
    d.reads_in_backward(inputs_[0]);
    d.reads_in_backward(output_);
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.pool_forward({pool_, step.value(inputs_[0]), step.value(output_)});
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.pool_backward({pool_, step.value(inputs_[0]), step.gradient(output_), step.into(inputs_[0])});
  }

 private:
  PoolProblem pool_;
};

}  // namespace

std::unique_ptr<Node> make_pool(std::string name, Edge x, Edge y, const PoolOptions& options) {
  return std::make_unique<Pool>(std::move(name), x, y, options);
}

}  // namespace octet
