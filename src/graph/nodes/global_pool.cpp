// The mean of each channel over all pixels, as f32 values for the classifier.
#include "src/graph/nodes/conv_node.h"
#include "src/quant/integer_layer.h"

namespace octet {
namespace {

class GlobalPool final : public NodeOf<GlobalPoolOptions> {
 public:
  using NodeOf::NodeOf;
  std::string kind() const override { return "global pool"; }
  Shape output_shape(const std::vector<Shape>& inputs) override { return {inputs[0].n, 1, 1, inputs[0].c}; }
  void declare(Declare& d) override {
    encoding_ = d.encoding(output_);
    if (!encoding_.quantized()) return;
    range_ = d.activation_range(name_, output_, encoding_);
    per_sample_ = d.shape(output_).elements() / d.images();
    mean_ = d.keep(d.shape(output_), DType::f32, Need::forward);
  }
  void forward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    const QTensor y = step.value(output_);
    const Tensor mean = encoding_.quantized() ? step.tensor(mean_) : y.values;
    step.backend.global_pool_forward({step.value(inputs_[0]), mean});
    if (!encoding_.quantized()) return;
    step.encode(range_, encoding_, [&](const Encoding& encoding, Probe probe) {
      step.backend.quantize({mean, encoding, step.key(index_, Role::activation, per_sample_), y, probe});
    });
  }
  void backward(Step& step) override {
    Timed timed(step.times, Phase::passes);
    step.backend.global_pool_backward({step.gradient(output_), step.into(inputs_[0])});
  }

 private:
  Encoding encoding_;
  Slot mean_;
  int64_t per_sample_ = 1;
};

}  // namespace

Edge global_pool(Graph& graph, const std::string& name, Edge x) {
  const IntegerLayers* const integers = graph.policy().integers();
  if (integers && integers->by_node.contains(name))
    return integer_mean(graph, name, x);  // else the mean of real numbers
  return graph.add<GlobalPool>(name, {x}, GlobalPoolOptions{});
}

}  // namespace octet
