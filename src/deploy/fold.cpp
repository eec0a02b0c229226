#include "src/deploy/fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/affine.h"
#include "src/graph/encodings.h"
#include "src/graph/nodes/conv_node.h"

namespace octet {
namespace {

// Copies of the network's values in the host's memory.
class Values {
 public:
  Values(const Parameters& parameters, Backend& backend) : parameters_(parameters), backend_(backend) {}

  const Param& param(const Node& node, ParamRole role) const {
    return *std::ranges::find(parameters_.all(), name_of(node, role), &Param::name);
  }
  std::vector<float> master(const Node& node, ParamRole role) const { return floats(param(node, role).master); }
  std::vector<float> statistic(const Node& node, ParamRole role) const {
    return floats(std::ranges::find(parameters_.statistics(), name_of(node, role), &Statistic::name)->tensor);
  }
  std::vector<int8_t> codes(const QTensor& of) const {
    std::vector<int8_t> codes(of.values.bytes());
    backend_.to_host(codes.data(), of.values.data, codes.size());
    return codes;
  }
  float scale(const QTensor& of) const {
    float scale = 0;
    backend_.to_host(&scale, of.scale, sizeof scale);
    return scale;
  }
  // Of a node's output. UsageError: nothing has measured it.
  float range(const Node& node) const {
    const auto params = node.params();
    const bool holds = std::ranges::any_of(params, [](const NodeParam& of) { return of.role == ParamRole::range; });
    const float range = holds ? statistic(node, ParamRole::range).front() : 0;
    REQUIRE_USAGE(range > 0, "measure it on some images with `octet calibrate`", "the range of '", node.name(),
                  "' is not known");
    return range;
  }

 private:
  static std::string name_of(const Node& node, ParamRole role) {
    for (const NodeParam& of : node.params())
      if (of.role == role) return of.name;
    throw Error(__FILE__, __LINE__, say("'", node.name(), "' lacks a parameter"), "fold a whole network");
  }
  std::vector<float> floats(const Tensor& of) const {
    std::vector<float> values(size_t(of.elements()));
    backend_.to_host(values.data(), of.data, of.bytes());
    return values;
  }

  const Parameters& parameters_;
  Backend& backend_;
};

class Folder {
 public:
  Folder(const Plan& plan, const Parameters& parameters, Backend& backend, const Normalization& pixels)
      : nodes_(plan.graph().nodes()),
        policy_(plan.graph().policy()),
        layout_(plan.layout()),
        values_(parameters, backend),
        scales_(layout_.shapes.size()),
        consumers_(layout_.shapes.size()),
        producer_(layout_.shapes.size()) {
    REQUIRE_USAGE(has_integers(policy_), "train with policy.name: unified_int8 and policy.activation_range: held",
                  "policy ", policy_.traits().name,
                  " has no integer network: its activations have no codes of one scale");
    for (const auto& node : nodes_) {
      for (const Edge edge : node->inputs()) consumers_[size_t(edge.id)].push_back(node->index());
      if (node->output().id >= 0) producer_[size_t(node->output().id)] = node->index();
    }
    // The edges have no pixels here, so that the sizes of images do not decide which codes are signed.
    encodings_ = choose_encodings(policy_, nodes_, std::vector<Shape>(scales_.size()), producer_, consumers_);
    for (const auto& node : nodes_) choose_codes(*node, pixels);
    for (const auto& node : nodes_)
      if (node->as<ConcatOptions>()) write_scale_of(*node);
  }

  IntegerLayers layers() {
    for (const auto& node : nodes_) {
      if (const auto* const conv = dynamic_cast<const ConvNode*>(node.get())) fold(*conv);
      if (node->as<GlobalPoolOptions>() && scale(node->output()) > 0) fold_mean(*node);
    }
    if (bounded_ > 0)
      layers_.notes.push_back(say("the ranges of ", bounded_,
                                  " ReLU6 layer(s) are above 6: their codes end at 6, in finer "
                                  "steps than in training"));
    return std::move(layers_);
  }

 private:
  static constexpr float relu6_end = 6;
  float& scale(Edge edge) { return scales_[size_t(edge.id)]; }
  Encoding& encoding(Edge edge) { return encodings_[size_t(edge.id)]; }
  const Shape& shape(Edge edge) const { return layout_.shapes[size_t(edge.id)]; }

  // The codes of a node's output, as in training. What is real there gets codes too, but for what the last layers
  // write and what detections are made of.
  void choose_codes(const Node& node, const Normalization& pixels) {
    const Edge y = node.output();
    if (y.id < 0) return;
    const bool coded = encoding(y).quantized();
    if (node.as<InputOptions>()) {
      if (!coded) encoding(y) = {.dtype = DType::s8};
      layers_.input_range = coded ? values_.range(node) : largest_of(pixels);
      layers_.input_highest = encoding(y).qmax;
      scale(y) = scale_of(layers_.input_range, encoding(y).qmax);
    } else if (node.keeps_encoding() || (node.as<GlobalPoolOptions>() && !coded)) {
      // A mean is within the range of its input.
      encoding(y) = encoding(node.inputs()[0]);
      for (const Edge x : node.inputs()) scale(y) = std::max(scale(y), scale(x));
    } else if (!node.writes_real()) {
      if (!coded) encoding(y) = policy_.encoding(node.never_negative() ? Role::positive_activation : Role::activation);
      scale(y) = scale_of(range_of(node), encoding(y).qmax);
    }
  }
  // A held range may lie above 6, as it grows by a share of itself. No code stands for more than 6 here: programs
  // compute a layer in integers only if rounding alone bounds it.
  float range_of(const Node& node) {
    const float range = values_.range(node);
    const auto* const conv = node.as<ConvOptions>();
    if (!conv || conv->activation != Activation::relu6 || range <= relu6_end) return range;
    ++bounded_;
    return relu6_end;
  }
  static float largest_of(const Normalization& pixels) {
    float largest = 0;
    for (int64_t channel = 0; channel < 3; ++channel)
      for (const float pixel : {0.0f, 255.0f})
        largest = std::max(largest, std::abs(pixel * pixels.scale(channel) + pixels.shift(channel)));
    return largest;
  }
  // The layers that nobody but a concatenation reads write its scale, so that no code is rounded twice.
  void write_scale_of(const Node& concat) {
    for (const Edge part : concat.inputs())
      if (nodes_[size_t(producer_[size_t(part.id)])]->as<ConvOptions>() && consumers_[size_t(part.id)].size() == 1)
        scale(part) = scale(concat.output());
  }

  void fold(const ConvNode& node) {
    const Edge x = node.inputs()[0], y = node.output();
    const bool adds = node.inputs().size() > 1;
    for (const Edge read : node.inputs())
      REQUIRE_USAGE(scale(read) > 0, "train with another policy", "'", node.name(),
                    "' has no integer form: it reads real numbers");
    IntegerLayer layer;
    layer.input_scale = scale(x);
    layer.output = encoding(y).dtype, layer.scale = layer.output == DType::f32 ? 1 : scale(y);
    std::vector<double> bias;
    quantize_weights(node, layer);
    fold_norm(node, layer, bias);
    round_bias(node, layer, bias);
    bound(node, layer);
    set_factors(layer, adds ? scale(node.inputs()[1]) : 0);
    layers_.by_node.emplace(node.name(), std::move(layer));
  }

  // Codes of the weights, and the real value of a code by output channel.
  void quantize_weights(const ConvNode& node, IntegerLayer& layer) const {
    const Param& weight = values_.param(node, ParamRole::weight);
    const auto channels = size_t(weight.shape.n);
    if (weight.encoding.quantized()) {
      layer.weights = values_.codes(weight.codes);
      layer.weight_scale.assign(channels, values_.scale(weight.codes));
      return;
    }
    // A layer that was trained in real numbers: a scale for each channel keeps most of them.
    const std::vector<float> real = values_.master(node, ParamRole::weight);
    const size_t row = real.size() / channels;
    for (size_t c = 0; c < channels; ++c) {
      float largest = 0;
      for (size_t i = 0; i < row; ++i) largest = std::max(largest, std::abs(real[c * row + i]));
      const float unit = largest > 0 ? largest / 127 : 1;
      layer.weight_scale.push_back(unit);
      for (size_t i = 0; i < row; ++i)
        layer.weights.push_back(int8_t(std::lround(std::clamp(real[c * row + i] / unit, -127.0f, 127.0f))));
    }
  }

  // y = gamma (conv - mean) / deviation + beta: a scale for each channel, and a bias. The codes of a channel with a
  // negative gamma change their signs.
  void fold_norm(const ConvNode& node, IntegerLayer& layer, std::vector<double>& bias) const {
    const ConvOptions& options = node.options();
    const size_t channels = layer.weight_scale.size(), row = layer.weights.size() / channels;
    if (options.norm.empty()) {
      for (const float b : values_.master(node, ParamRole::bias)) bias.push_back(b);
      return;
    }
    const auto gamma = values_.master(node, ParamRole::gamma), beta = values_.master(node, ParamRole::beta);
    const auto mean = values_.statistic(node, ParamRole::running_mean),
               variance = values_.statistic(node, ParamRole::running_variance);
    for (size_t c = 0; c < channels; ++c) {
      const double slope = gamma[c] / std::sqrt(double(variance[c]) + double(options.epsilon));
      bias.push_back(beta[c] - slope * mean[c]);
      layer.weight_scale[c] = float(layer.weight_scale[c] * std::abs(slope));
      for (size_t i = c * row; i < (c + 1) * row; ++i)
        layer.weights[i] = int8_t(slope < 0 ? -layer.weights[i] : slope == 0 ? 0 : layer.weights[i]);
    }
  }

  // A bias in units of the products. Of a channel with hardly any weight the unit may be so small that the sum would
  // overflow int32. Its weights then get coarser codes.
  void round_bias(const ConvNode& node, IntegerLayer& layer, const std::vector<double>& bias) {
    const size_t channels = bias.size(), row = layer.weights.size() / channels;
    const double largest_code = encoding(node.inputs()[0]).dtype == DType::u8 ? 255 : 127;
    const double room = std::ldexp(1.0, 30) - 127 * largest_code * double(row);
    int64_t coarser = 0;
    for (size_t c = 0; c < channels; ++c) {
      double unit = double(layer.input_scale) * layer.weight_scale[c];
      if (std::abs(bias[c]) > room * unit) {
        const double old = layer.weight_scale[c];
        layer.weight_scale[c] = float(std::abs(bias[c]) / room / layer.input_scale);
        unit = double(layer.input_scale) * layer.weight_scale[c];
        for (size_t i = c * row; i < (c + 1) * row; ++i)
          layer.weights[i] = int8_t(std::lround(layer.weights[i] * old / layer.weight_scale[c]));
        ++coarser;
      }
      layer.bias.push_back(unit > 0 ? int32_t(std::nearbyint(bias[c] / unit)) : 0);
      if (layer.weight_scale[c] == 0) layer.weight_scale[c] = std::numeric_limits<float>::min();
    }
    if (coarser > 0)
      layers_.notes.push_back(say("'", node.name(), "': the weights of ", coarser,
                                  " channel(s) are near zero and have coarser codes, so that the bias fits in int32"));
  }

  // The codes between which the activation leaves the output.
  void bound(const ConvNode& node, IntegerLayer& layer) {
    if (layer.output == DType::f32) return;
    const int qmax = encoding(node.output()).qmax;
    const Activation activation = node.options().activation;
    layer.highest = qmax;
    layer.lowest = layer.output == DType::u8 || activation != Activation::none ? 0 : -qmax;
    if (activation == Activation::relu6)
      layer.highest = std::min<int>(qmax, int(std::nearbyint(6 / double(layer.scale))));
  }

  void fold_mean(const Node& node) {
    const Shape x = shape(node.inputs()[0]);
    const auto channels = size_t(x.c);
    IntegerLayer layer;
    layer.input_scale = scale(node.inputs()[0]);
    layer.output = encoding(node.output()).dtype, layer.scale = scale(node.output());
    layer.weights.assign(size_t(x.h * x.w) * channels, 1);
    layer.bias.assign(channels, 0);
    layer.weight_scale.assign(channels, 1.0f / float(x.h * x.w));
    set_factors(layer);
    layer.highest = encoding(node.output()).qmax;
    layer.lowest = layer.output == DType::u8 ? 0 : -layer.highest;
    layers_.by_node.emplace(node.name(), std::move(layer));
  }

  const std::vector<std::unique_ptr<Node>>& nodes_;
  const Policy& policy_;
  const Layout& layout_;
  const Values values_;
  std::vector<float> scales_;                // by edge; 0: real numbers
  std::vector<Encoding> encodings_;          // by edge
  std::vector<std::vector<int>> consumers_;  // by edge: the nodes that read it
  std::vector<int> producer_;                // by edge: the node that writes it
  int bounded_ = 0;                          // ranges
  IntegerLayers layers_;
};

}  // namespace

bool has_integers(const Policy& policy) { return policy.traits().holds_ranges && !policy.simulation(); }

IntegerLayers fold(const Plan& plan, const Parameters& parameters, Backend& backend, const Normalization& pixels) {
  return Folder(plan, parameters, backend, pixels).layers();
}

}  // namespace octet
