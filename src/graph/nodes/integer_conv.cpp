// Convolutions, linear layers and means of an integer network: codes in, codes or logits out, by constants alone.
#include "src/graph/nodes/conv_node.h"
#include "src/quant/integer_layer.h"

namespace octet {
namespace {

const IntegerLayer& layer_of(const Graph& graph, const std::string& name) {
  const auto& all = graph.policy().integers()->by_node;
  const auto found = all.find(name);
  REQUIRE(found != all.end(), "fold the network that the graph is of", "the integer network has no '", name, "'");
  return found->second;
}

// What both nodes do with their constants.
class Constants {
 public:
  explicit Constants(const IntegerLayer& layer) : layer_(layer) {}
  const IntegerLayer& layer() const { return layer_; }

  // Once; they stay as they are.
  void load(Step& step, const ConvProblem& problem, const std::vector<Edge>& inputs, Edge output) {
    if (ready_) return;
    const Requantization how{layer_.bias.data(), layer_.factor.data(),
                             layer_.residual_factor.empty() ? nullptr : layer_.residual_factor.data(), layer_.lowest,
                             layer_.highest};
    const Tensor weights{const_cast<int8_t*>(layer_.weights.data()), problem.weight(), DType::s8};
    ready_ = step.backend.make_ready(
        {problem, step.value(inputs[0]).values, weights, residual(step, inputs), how, step.value(output).values});
    if (float* const scale = step.value(output).scale) step.backend.to_device(scale, &layer_.scale, sizeof(float));
  }
  void compute(Step& step, const std::vector<Edge>& inputs, Edge output) const {
    Timed timed(step.times, Phase::forward);
    ready_->run(step.value(inputs[0]).values, residual(step, inputs), step.value(output).values);
  }

 private:
  static Tensor residual(const Step& step, const std::vector<Edge>& inputs) {
    return inputs.size() > 1 ? step.value(inputs[1]).values : Tensor{};
  }

  const IntegerLayer& layer_;
  std::unique_ptr<ReadyConvolution> ready_;
};

class IntegerConv final : public ConvNode {
 public:
  IntegerConv(std::string name, std::vector<Edge> inputs, Edge output, const ConvOptions& options, const Graph& graph)
      : ConvNode(std::move(name), std::move(inputs), output, options, graph), constants_(layer_of(graph, name_)) {}
  std::vector<NodeParam> params() const override { return {}; }
  bool trains() const override { return false; }
  bool never_negative() const override { return constants_.layer().output == DType::u8; }
  void declare(Declare&) override {}
  void bind(Parameters&) override {}
  void load(const Targets&, Step& step) override { constants_.load(step, conv_, inputs_, output_); }
  void forward(Step& step) override { constants_.compute(step, inputs_, output_); }
  Work work(const Memory&) const override { return {.products = conv_.products()}; }

 private:
  Constants constants_;
};

// A depthwise convolution that covers the image, with weights of 1.
class IntegerMean final : public NodeOf<GlobalPoolOptions> {
 public:
  IntegerMean(std::string name, std::vector<Edge> inputs, Edge output, const Graph& graph)
      : NodeOf(std::move(name), std::move(inputs), output, {}), constants_(layer_of(graph, name_)) {}
  std::string kind() const override { return "global pool"; }
  Shape output_shape(const std::vector<Shape>& inputs) override {
    const Shape& x = inputs[0];
    conv_.x = x;
    conv_.y = {x.n, 1, 1, x.c};
    conv_.kernel_h = int(x.h), conv_.kernel_w = int(x.w), conv_.groups = int(x.c);
    return conv_.y;
  }
  bool never_negative() const override { return constants_.layer().output == DType::u8; }
  void load(const Targets&, Step& step) override { constants_.load(step, conv_, inputs_, output_); }
  void forward(Step& step) override { constants_.compute(step, inputs_, output_); }

 private:
  Constants constants_;
  ConvProblem conv_;
};

}  // namespace

Edge integer_conv(Graph& graph, const std::string& name, const std::vector<Edge>& inputs, const ConvOptions& options) {
  return graph.add<IntegerConv>(name, inputs, options, graph);
}

Edge integer_mean(Graph& graph, const std::string& name, Edge x) { return graph.add<IntegerMean>(name, {x}, graph); }

}  // namespace octet
