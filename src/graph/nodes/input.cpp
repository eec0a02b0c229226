// The images of the batch, as f32 values or, for a quantized first layer, as codes.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Input final : public Node {
 public:
  Input(Shape image, Edge output) : Node("input", {}, output), image_(image) {}
  std::string kind() const override { return "input"; }
  Shape output_shape(const std::vector<Shape>&) override { return image_; }

  void declare(Declare& d) override {
    shape_ = d.shape(output_);
    encoding_ = d.encoding(output_);
    range_ = d.activation_range(name_, output_);
  }

  void forward(Step& step) override {
    Timed timed(step.times, Phase::quantize);
    const Tensor images{const_cast<float*>(step.images), shape_, DType::f32};
    step.encode(range_, encoding_, [&](const Encoding& encoding, Probe probe) {
      step.backend.quantize({images, encoding, step.key(index_, Role::activation, shape_.elements() / shape_.n),
                             step.value(output_), probe});
    });
  }
  void backward(Step&) override {}

 private:
  Shape image_, shape_;
  Encoding encoding_;
  int range_ = -1;
};

}  // namespace

std::unique_ptr<Node> make_input(int64_t height, int64_t width, int64_t channels, Edge output) {
  return std::make_unique<Input>(Shape{1, height, width, channels}, output);
}

}  // namespace octet
