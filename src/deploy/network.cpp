#include "src/deploy/network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "src/graph/nodes/conv_node.h"

namespace octet {
namespace {

using Kind = IntegerOperation::Kind;

Shape of_one_image(Shape shape) {
  shape.n = 1;
  return shape;
}

class Lister {
 public:
  Lister(const Plan& plan, const Normalization& pixels)
      : plan_(plan), layers_(*plan.graph().policy().integers()), tensor_(size_t(plan.graph().edges())) {
    network_.pixels = pixels;
    network_.input_range = layers_.input_range, network_.input_highest = layers_.input_highest;
    network_.notes = layers_.notes;
  }

  IntegerNetwork list() {
    for (const auto& node : plan_.graph().nodes()) add(*node);
    return std::move(network_);
  }

 private:
  int& tensor(Edge edge) { return tensor_[size_t(edge.id)]; }
  const Shape& shape(Edge edge) const { return plan_.layout().shapes[size_t(edge.id)]; }
  const IntegerTensor& input(const Node& node, size_t i = 0) {
    return network_.tensors[size_t(tensor(node.inputs()[i]))];
  }
  void add_tensor(const Node& node, DType type, float scale) {
    tensor(node.output()) = int(network_.tensors.size());
    network_.tensors.push_back({of_one_image(shape(node.output())), type, scale});
  }

  void add(const Node& node) {
    if (node.as<InputOptions>()) return add_tensor(node, DType::s8, layers_.input_range / float(layers_.input_highest));
    if (node.as<DropoutOptions>()) {
      tensor(node.output()) = tensor(node.inputs()[0]);
      return;
    }
    if (node.as<SoftmaxLossOptions>()) return;
    if (const auto* const detector = node.as<DenseDetectOptions>()) return add_detector(*detector);
    IntegerOperation operation;
    operation.name = node.name();
    for (const Edge edge : node.inputs()) operation.inputs.push_back(tensor(edge));
    describe(node, operation);
    operation.output = tensor(node.output());
    network_.operations.push_back(std::move(operation));
  }

  void describe(const Node& node, IntegerOperation& operation) {
    const auto layer = layers_.by_node.find(node.name());
    if (layer != layers_.by_node.end()) operation.layer = layer->second;
    if (const auto* const conv = dynamic_cast<const ConvNode*>(&node)) {
      operation.kind = conv->options().gives_logits && conv->options().linear ? Kind::linear : Kind::convolution;
      operation.activation = conv->options().activation;
      operation.conv = conv->problem();
      operation.conv.x.n = operation.conv.y.n = 1;
      add_tensor(node, operation.layer.output, operation.layer.scale);
    } else if (node.as<GlobalPoolOptions>()) {
      const Shape x = input(node).shape;
      operation.kind = Kind::mean;
      operation.conv = channelwise(x, of_one_image(shape(node.output())), int(x.h), int(x.w));
      add_tensor(node, operation.layer.output, operation.layer.scale);
    } else if (const auto* const pool = node.as<PoolOptions>()) {
      operation.kind = Kind::pool;
      operation.pool = *pool;
      operation.pool.x.n = operation.pool.y.n = 1;
      add_tensor(node, input(node).type, input(node).scale);
    } else if (node.as<ConcatOptions>()) {
      operation.kind = Kind::concat;
      float scale = 0;
      for (size_t i = 0; i < node.inputs().size(); ++i) scale = std::max(scale, input(node, i).scale);
      add_tensor(node, input(node).type, scale);
    } else {
      REQUIRE_USAGE(false, "export a classifier, or a RetinaNet", "'", node.name(), "' (", node.kind(),
                    ") has no form in a file: no standard operation does what it does");
    }
  }

  void add_detector(const DenseDetectOptions& options) {
    network_.detector = options;
    for (DenseLevel& level : network_.detector->levels)
      level.logits.id = tensor(level.logits), level.deltas.id = tensor(level.deltas);
  }

  const Plan& plan_;
  const IntegerLayers& layers_;
  std::vector<int> tensor_;  // by edge: its index
  IntegerNetwork network_;
};

// The constants of a sum, or of a mean over the kernel.
void set_ones(IntegerLayer& layer, const ConvProblem& p) {
  layer.weights.assign(size_t(p.weight().elements()), 1);
  layer.bias.assign(size_t(p.y.c), 0);
  layer.weight_scale.assign(size_t(p.y.c), 1.0f / float(p.kernel_h * p.kernel_w));
}

// Saturation alone bounds the codes of a file, and it begins at -128; training's codes begin at -127.
void saturate(IntegerLayer& layer) {
  if (layer.output == DType::s8 && layer.lowest < 0) layer.lowest = -128;
}

// The layer that adds two tensors of these scales.
IntegerLayer sum_layer(const ConvProblem& p, float first, float second, const IntegerLayer& of) {
  IntegerLayer sum;
  set_ones(sum, p);
  sum.lowest = of.lowest, sum.highest = of.highest;
  sum.output = of.output, sum.scale = of.scale;
  sum.input_scale = first;
  set_factors(sum, second);
  return sum;
}

Shape output_of(const IntegerNetwork& network, const IntegerOperation& operation) {
  if (operation.kind == Kind::pool) return operation.pool.y;
  if (operation.kind != Kind::concat) return operation.conv.y;
  Shape whole = network.tensors[size_t(operation.inputs[0])].shape;
  whole.c = 0;
  for (const int part : operation.inputs) whole.c += network.tensors[size_t(part)].shape.c;
  return whole;
}

// Numbers the tensors in the order in which operations write them.
void renumber(IntegerNetwork& network) {
  std::vector<IntegerTensor> tensors = {network.tensors.front()};
  std::vector<int> number(network.tensors.size());
  for (IntegerOperation& operation : network.operations) {
    for (int& input : operation.inputs) input = number[size_t(input)];
    number[size_t(operation.output)] = int(tensors.size());
    tensors.push_back(network.tensors[size_t(operation.output)]);
    operation.output = int(tensors.size()) - 1;
  }
  if (network.detector)
    for (DenseLevel& level : network.detector->levels)
      for (Edge* const edge : {&level.logits, &level.deltas}) edge->id = number[size_t(edge->id)];
  network.tensors = std::move(tensors);
}

}  // namespace

ConvProblem channelwise(const Shape& x, const Shape& y, int kernel_h, int kernel_w) {
  ConvProblem p;
  p.x = x, p.y = y;
  p.kernel_h = kernel_h, p.kernel_w = kernel_w, p.groups = int(x.c);
  return p;
}

void append_operation(IntegerNetwork& network, IntegerOperation operation, DType type, float scale) {
  if (operation.computes()) {
    const auto scale_of = [&](size_t i) { return network.tensors[size_t(operation.inputs[i])].scale; };
    IntegerLayer& layer = operation.layer;
    if (operation.kind == Kind::sum || operation.kind == Kind::mean) set_ones(layer, operation.conv);
    layer.input_scale = scale_of(0);
    layer.output = type, layer.scale = scale;
    set_bounds(layer, operation.activation);
    saturate(layer);
    set_factors(layer, operation.inputs.size() > 1 ? scale_of(1) : 0);
  }
  operation.output = int(network.tensors.size());
  network.tensors.push_back({output_of(network, operation), type, scale});
  network.operations.push_back(std::move(operation));
}

IntegerNetwork integer_network(const Plan& plan, const Normalization& pixels) {
  REQUIRE(plan.graph().policy().integers() != nullptr, "fold the network first", "a list of a network that trains");
  return Lister(plan, pixels).list();
}

IntegerLayers layers_of(const IntegerNetwork& network) {
  IntegerLayers layers;
  layers.input_range = network.input_range, layers.input_highest = network.input_highest;
  layers.notes = network.notes;
  for (const IntegerOperation& operation : network.operations)
    if (operation.computes()) layers.by_node.emplace(operation.name, operation.layer);
  return layers;
}

Graph graph_of(const IntegerNetwork& network, const Policy& policy, SoftmaxLossOptions loss) {
  Graph graph(policy);
  std::vector<Edge> edges(network.tensors.size());
  const Shape& images = network.tensors.front().shape;
  edges[0] = input(graph, {images.h, images.w, images.c});
  for (const IntegerOperation& operation : network.operations) {
    std::vector<Edge> inputs;
    for (const int tensor : operation.inputs) inputs.push_back(edges[size_t(tensor)]);
    Edge& output = edges[size_t(operation.output)];
    const ConvProblem& p = operation.conv;
    switch (operation.kind) {
      case Kind::convolution:
      case Kind::linear:
      case Kind::sum: {
        REQUIRE_USAGE(p.stride_h == p.stride_w && p.dilation_h == p.dilation_w, "export the network again", "'",
                      operation.name, "' has a stride or a dilation that is not square");
        ConvOptions options{.out = p.y.c,
                            .kernel = {p.kernel_h, p.kernel_w},
                            .stride = p.stride_h,
                            .pad = {p.pad_h, p.pad_w},
                            .dilation = p.dilation_h,
                            .groups = p.groups,
                            .activation = operation.activation,
                            .gives_logits = operation.layer.output == DType::f32,
                            .linear = operation.kind == Kind::linear};
        options.same = end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h) != p.pad_h ||
                       end_padding(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w) != p.pad_w;
        output = integer_conv(graph, operation.name, inputs, options);
        break;
      }
      case Kind::mean:
        output = integer_mean(graph, operation.name, inputs[0]);
        break;
      case Kind::pool:
        output = pool(graph, operation.name, inputs[0], operation.pool);
        break;
      case Kind::concat:
        output = concat(graph, operation.name, inputs);
        break;
    }
  }
  if (network.detector) {
    detect(graph, *network.detector);
    return graph;
  }
  loss.heads = {{edges.back()}};
  softmax_loss(graph, loss);
  return graph;
}

IntegerNetwork with_file_codes(IntegerNetwork network) {
  for (IntegerOperation& operation : network.operations)
    if (operation.computes()) saturate(operation.layer);
  return network;
}

IntegerNetwork with_separate_sums(IntegerNetwork network) {
  std::vector<IntegerOperation> operations;
  for (IntegerOperation& operation : network.operations) {
    if (operation.kind != Kind::convolution || operation.inputs.size() < 2) {
      operations.push_back(std::move(operation));
      continue;
    }
    const IntegerTensor to = network.tensors[size_t(operation.output)];
    const IntegerTensor shortcut = network.tensors[size_t(operation.inputs[1])];
    IntegerOperation sum;
    sum.kind = Kind::sum;
    sum.name = operation.name + ".sum";
    sum.activation = std::exchange(operation.activation, Activation::none);
    sum.conv = channelwise(to.shape, to.shape, 1, 1);
    // What lies beyond the largest output less the least shortcut cannot change the output.
    const auto largest = [](const IntegerTensor& tensor) {
      return tensor.scale * float(tensor.type == DType::u8 ? 255 : 127);
    };
    const float range =
        shortcut.type == DType::u8 ? std::max(largest(to), largest(shortcut)) : largest(to) + largest(shortcut);
    const float scale = range / 127;
    sum.layer = sum_layer(sum.conv, scale, shortcut.scale, operation.layer);
    sum.inputs = {int(network.tensors.size()), operation.inputs[1]};
    sum.output = std::exchange(operation.output, int(network.tensors.size()));
    network.tensors.push_back({to.shape, DType::s8, scale});
    operation.inputs.pop_back();
    operation.layer.output = DType::s8, operation.layer.scale = scale;
    operation.layer.lowest = -127, operation.layer.highest = 127;
    set_factors(operation.layer);
    operations.push_back(std::move(operation));
    operations.push_back(std::move(sum));
  }
  network.operations = std::move(operations);
  renumber(network);
  return with_file_codes(std::move(network));
}

IntegerNetwork with_signed_codes(IntegerNetwork network) {
  std::vector<float> old_scales;
  for (IntegerTensor& tensor : network.tensors) {
    old_scales.push_back(tensor.scale);
    if (tensor.type != DType::u8) continue;
    tensor.type = DType::s8;
    tensor.scale *= 255.0f / 127;
  }
  for (IntegerOperation& operation : network.operations) {
    if (!operation.computes()) continue;
    IntegerLayer& layer = operation.layer;
    const auto scale = [&](size_t i) { return network.tensors[size_t(operation.inputs[i])].scale; };
    const double coarser = double(scale(0)) / old_scales[size_t(operation.inputs[0])];
    layer.input_scale = scale(0);
    for (int32_t& bias : layer.bias) bias = int32_t(std::nearbyint(bias / coarser));
    if (layer.output == DType::u8) {
      layer.output = DType::s8;
      layer.scale = network.tensors[size_t(operation.output)].scale;
      set_bounds(layer, operation.activation);
    }
    set_factors(layer, operation.inputs.size() > 1 ? scale(1) : 0);
  }
  return with_file_codes(std::move(network));
}

// Whether both make the same detections of the same tensors.
static bool detect_alike(const DenseDetectOptions& a, const DenseDetectOptions& b) {
  const auto rule = [](const DenseDetectOptions& of) {
    return std::tuple(of.classes, of.score, of.overlap, of.of_level, of.detections);
  };
  const auto level = [](const DenseLevel& of) {
    const AnchorLevel& anchors = of.anchors;
    return std::tuple(of.logits.id, of.deltas.id, anchors.height, anchors.width, anchors.stride, anchors.sizes,
                      anchors.ratios);
  };
  return rule(a) == rule(b) && std::ranges::equal(a.levels, b.levels, {}, level, level);
}

std::string difference(const IntegerNetwork& a, const IntegerNetwork& b) {
  if (a.pixels != b.pixels || a.input_range != b.input_range || a.input_highest != b.input_highest)
    return "the normalization of pixels";
  if (a.operations.size() != b.operations.size() || a.tensors.size() != b.tensors.size())
    return say("the number of operations: ", a.operations.size(), ", ", b.operations.size());
  const auto geometry = [](const ConvProblem& p) {
    return std::array<int64_t, 16>{p.x.h,      p.x.w,        p.x.c,      p.y.h,        p.y.w,
                                   p.y.c,      p.kernel_h,   p.kernel_w, p.pad_h,      p.pad_w,
                                   p.stride_h, p.dilation_h, p.groups,   p.dilation_w, p.stride_w};
  };
  const auto pool = [](const PoolProblem& p) {
    return std::array<int64_t, 8>{p.x.h,    p.x.w, p.y.h,           p.kernel,
                                  p.stride, p.pad, int64_t(p.kind), p.count_padding + 2 * p.rectify};
  };
  if (a.detector.has_value() != b.detector.has_value() || (a.detector && !detect_alike(*a.detector, *b.detector)))
    return "the detector";
  for (size_t i = 0; i < a.tensors.size(); ++i)
    if (a.tensors[i] != b.tensors[i]) return say("the scale, type or shape of tensor ", i);
  for (size_t i = 0; i < a.operations.size(); ++i) {
    const IntegerOperation &x = a.operations[i], &y = b.operations[i];
    if (x.name != y.name) return say("'", x.name, "' and '", y.name, "'");
    if (x.kind != y.kind || x.inputs != y.inputs || x.output != y.output || x.activation != y.activation ||
        geometry(x.conv) != geometry(y.conv) || pool(x.pool) != pool(y.pool))
      return say("the form of '", x.name, "'");
    if (x.layer != y.layer) return say("the integers of '", x.name, "'");
  }
  return {};
}

}  // namespace octet
