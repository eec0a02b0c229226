// The images of the batch, as f32 values or, for a quantized first layer, as codes.
#include "src/graph/nodes/nodes.h"

namespace octet {
namespace {

class Input final : public NodeOf<InputOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "input"; }
  Shape output_shape(const std::vector<Shape>&) override {
    return {1, options_.height, options_.width, options_.channels};
  }

  void declare(Declare& d) override {
    encoding_ = d.encoding(output_);
    range_ = d.activation_range(name_, output_, encoding_);
  }

  void forward(Step& step) override {
    Timed timed(step.times, Phase::quantize);
    const QTensor y = step.value(output_);
    const Shape& shape = y.values.shape;
    const Tensor images{const_cast<float*>(step.images), shape, DType::f32};
    step.encode(range_, encoding_, [&](const Encoding& encoding, Probe probe) {
      step.backend.quantize(
          {images, encoding, step.key(index_, Role::activation, shape.elements() / shape.n), y, probe});
    });
  }

 private:
  Encoding encoding_;
};

}  // namespace

Edge input(Graph& graph, const InputOptions& options) { return graph.add<Input>("input", {}, options); }

int64_t side_of_images(const Graph& graph) {
  const auto* const images = graph.nodes().front()->as<InputOptions>();
  return std::max(images->height, images->width);
}

}  // namespace octet
