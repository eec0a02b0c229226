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

// The constants in the device's memory.
class Constants {
 public:
  explicit Constants(const IntegerLayer& layer) : layer_(layer) {}
  const IntegerLayer& layer() const { return layer_; }

  void declare(Declare& d) {
    weights_ = d.input(layer_.weights.size());
    bias_ = d.input(layer_.bias.size() * sizeof(int32_t));
    factor_ = d.input(layer_.factor.size() * sizeof(double));
    if (!layer_.residual_factor.empty()) residual_factor_ = d.input(layer_.residual_factor.size() * sizeof(double));
  }
  // Once; they stay as they are.
  void load(Step& step, Edge output) {
    if (loaded_) return;
    loaded_ = true;
    const auto copy = [&](int input, const auto& values) {
      if (input >= 0)
        step.backend.to_device(step.memory.inputs[size_t(input)], values.data(), values.size() * sizeof(values[0]));
    };
    copy(weights_, layer_.weights), copy(bias_, layer_.bias);
    copy(factor_, layer_.factor), copy(residual_factor_, layer_.residual_factor);
    if (float* const scale = step.value(output).scale) step.backend.to_device(scale, &layer_.scale, sizeof(float));
  }
  void compute(Step& step, const ConvProblem& problem, const std::vector<Edge>& inputs, Edge output) const {
    Timed timed(step.times, Phase::forward);
    const auto at = [&](int input) { return input < 0 ? nullptr : step.memory.inputs[size_t(input)]; };
    const Requantization how{static_cast<const int32_t*>(at(bias_)), static_cast<const double*>(at(factor_)),
                             static_cast<const double*>(at(residual_factor_)), layer_.lowest, layer_.highest};
    step.backend.conv_requantize({problem,
                                  step.value(inputs[0]).values,
                                  {at(weights_), problem.weight(), DType::s8},
                                  inputs.size() > 1 ? step.value(inputs[1]).values : Tensor{},
                                  how,
                                  step.value(output).values});
  }

 private:
  const IntegerLayer& layer_;
  int weights_ = -1, bias_ = -1, factor_ = -1, residual_factor_ = -1;
  bool loaded_ = false;
};

class IntegerConv final : public ConvNode {
 public:
  IntegerConv(std::string name, std::vector<Edge> inputs, Edge output, const ConvOptions& options, const Graph& graph)
      : ConvNode(std::move(name), std::move(inputs), output, options, graph), constants_(layer_of(graph, name_)) {}
  std::vector<NodeParam> params() const override { return {}; }
  bool trains() const override { return false; }
  bool never_negative() const override { return constants_.layer().output == DType::u8; }
  void declare(Declare& d) override { constants_.declare(d); }
  void bind(Parameters&) override {}
  void load(const Targets&, Step& step) override { constants_.load(step, output_); }
  void forward(Step& step) override { constants_.compute(step, conv_, inputs_, output_); }
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
  void declare(Declare& d) override { constants_.declare(d); }
  void load(const Targets&, Step& step) override { constants_.load(step, output_); }
  void forward(Step& step) override { constants_.compute(step, conv_, inputs_, output_); }

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
