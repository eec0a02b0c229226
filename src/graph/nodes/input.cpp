// The images of the batch: their bytes as they are, f32 values or, for a quantized first layer, codes.
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
    if (as_they_are_ = d.is_pixels(output_); as_they_are_) return;
    encoding_ = d.encoding(output_);
    range_ = d.activation_range(name_, output_, encoding_);
    if (!d.pixels()) return;
    pixels_ = *d.pixels();
    if (encoding_.quantized()) real_ = d.keep(d.shape(output_), DType::f32, Need::forward);
  }

  void forward(Step& step) override {
    if (as_they_are_) return;
    Timed timed(step.times, Phase::quantize);
    const QTensor y = step.value(output_);
    const Shape& shape = y.values.shape;
    Tensor images{const_cast<void*>(step.images), shape, DType::f32};
    if (pixels_) {
      const Tensor bytes{images.data, {shape.n, shape.h, shape.w, pixel_channels}, DType::u8};
      images = encoding_.quantized() ? step.tensor(real_) : y.values;
      step.backend.pixel_values({*pixels_, bytes, images});
      if (!encoding_.quantized()) return;
    }
    step.encode(range_, encoding_, [&](const Encoding& encoding, Probe probe) {
      step.backend.quantize(
          {images, encoding, step.key(index_, Role::activation, shape.elements() / shape.n), y, probe});
    });
  }

 private:
  Encoding encoding_;
  bool as_they_are_ = false;
  std::optional<PixelScale> pixels_;
  Slot real_;
};

}  // namespace

Edge input(Graph& graph, const InputOptions& options) { return graph.add<Input>("input", {}, options); }

int64_t side_of_images(const Graph& graph) {
  const auto* const images = graph.nodes().front()->as<InputOptions>();
  return std::max(images->height, images->width);
}

}  // namespace octet
