#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/error.h"
#include "onnx/onnx.pb.h"
#include "src/deploy/onnx.h"
#include "src/deploy/onnx_detector.h"

namespace octet {
namespace {

using Kind = IntegerOperation::Kind;

// A constant of the file: floats, or codes and what they stand for.
struct Constant {
  std::vector<int64_t> dims;
  std::vector<float> reals;    // of FLOAT
  std::vector<int64_t> codes;  // of integers
  std::vector<float> scales;   // of codes that a DequantizeLinear has read
};

// What a name stands for.
struct Value {
  int tensor = -1;                                 // real values of its codes
  std::optional<IntegerOperation> operation = {};  // whose result is not rounded yet; without inputs: the images
};

class Reader {
 public:
  Reader(const onnx::ModelProto& model, const std::string& path) : graph_(model.graph()), path_(path) {
    for (const auto& entry : model.metadata_props()) metadata_[entry.key()] = entry.value();
    const auto scales = metadata_.find("scales");
    if (scales != metadata_.end()) {
      scales_ = nlohmann::json::parse(scales->second, nullptr, false);
      metadata_.erase(scales);
    }
  }

  NetworkFile read() {
    for (const auto& of : graph_.initializer())
      if (!of.name().starts_with(detector_prefix)) constants_[of.name()] = constant(of);
    require(graph_.input_size() == 1, "one input");
    const auto& shape = graph_.input(0).type().tensor_type().shape();
    require(shape.dim_size() == 4, "images with 4 extents");
    images_ = {1, shape.dim(2).dim_value(), shape.dim(3).dim_value(), shape.dim(1).dim_value()};
    values_[graph_.input(0).name()].operation.emplace();
    int first_of_detector = 0;
    for (const auto& node : graph_.node()) {
      if (node.name().starts_with(detector_prefix)) break;
      read(node);
      ++first_of_detector;
    }
    if (first_of_detector < graph_.node_size()) read_detector(first_of_detector);
    network_.input_range = network_.tensors.at(0).scale * float(network_.input_highest);
    return {std::move(network_), std::move(metadata_)};
  }

 private:
  using Node = onnx::NodeProto;
  void require(bool holds, std::string_view what, const std::string& of = {}) const {
    REQUIRE_USAGE(holds, "export the network again", path_, " is no network that octet can read: it needs ", what, of);
  }

  template <class T, class To>
  static void append(const onnx::TensorProto& of, std::vector<To>& values) {
    for (size_t i = 0; i + sizeof(T) <= of.raw_data().size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, of.raw_data().data() + i, sizeof(T));
      values.push_back(To(value));
    }
  }
  Constant constant(const onnx::TensorProto& of) const {
    Constant read;
    int64_t elements = 1;
    for (const int64_t dim : of.dims()) {
      require(dim > 0 && dim < (int64_t{1} << 31) / elements, "constants of a sound size");
      elements *= dim;
      read.dims.push_back(dim);
    }
    switch (of.data_type()) {
      case onnx::TensorProto::FLOAT:
        append<float>(of, read.reals);
        break;
      case onnx::TensorProto::INT32:
        append<int32_t>(of, read.codes);
        break;
      case onnx::TensorProto::UINT8:
        append<uint8_t>(of, read.codes);
        break;
      case onnx::TensorProto::INT8:
        append<int8_t>(of, read.codes);
        break;
      default:
        require(false, "constants of 8 or 32 bits");
    }
    require(int64_t(std::max(read.reals.size(), read.codes.size())) == elements, "a whole constant ", of.name());
    return read;
  }
  const Constant& constant(const Node& node, int i) const {
    require(i < node.input_size() && constants_.contains(node.input(i)), "one more input of ", node.name());
    return constants_.at(node.input(i));
  }
  float number(const Node& node, int i) const {
    const Constant& of = constant(node, i);
    require(of.reals.size() == 1, "one number before ", node.name());
    return of.reals[0];
  }
  Value& value(const Node& node, int i) {
    require(i < node.input_size() && values_.contains(node.input(i)), "one more input of ", node.name());
    return values_.at(node.input(i));
  }
  int tensor(const Node& node, int i) {
    const int index = value(node, i).tensor;
    require(index >= 0, "codes before ", node.name());
    return index;
  }
  const Shape& shape(int index) const { return network_.tensors[size_t(index)].shape; }

  static std::vector<int64_t> numbers(const Node& node, const char* name, std::vector<int64_t> otherwise) {
    for (const auto& attribute : node.attribute())
      if (attribute.name() == name) {
        if (attribute.type() == onnx::AttributeProto::INT) return {attribute.i()};
        return {attribute.ints().begin(), attribute.ints().end()};
      }
    return otherwise;
  }

  void read(const Node& node) {
    require(node.input_size() > 0 && node.output_size() == 1, "inputs and one output of ", node.name());
    const std::string& type = node.op_type();
    if (type == "DequantizeLinear" && constants_.contains(node.input(0))) {
      Constant read = constant(node, 0);
      read.scales = constant(node, 1).reals;
      constants_[node.output(0)] = std::move(read);
      return;
    }
    Value& y = values_[node.output(0)];
    if (type == "Sub" || type == "Div") {
      const Constant& of = constant(node, 1);
      require(of.reals.size() == 3, "three channels");
      std::ranges::copy(of.reals, (type == "Sub" ? network_.pixels.mean : network_.pixels.deviation).begin());
      y = value(node, 0);
    } else if (type == "QuantizeLinear") {
      round(node, y);
    } else if (type == "DequantizeLinear" || type == "Flatten") {
      y = value(node, 0);
    } else {
      y.operation = operation(node);
      if (type == "Gemm" || (type == "Conv" && !node.name().ends_with(".real"))) return end(y, DType::f32, 1);
    }
    if (y.tensor < 0 && scales_.contains(node.output(0)) && scales_[node.output(0)].contains("activation")) {
      const auto& of = scales_[node.output(0)];
      end(y, of.value("type", "") == "uint8" ? DType::u8 : DType::s8, of.value("activation", 0.0f));
    }
  }

  // The operations must be those that the writer would append.
  void read_detector(int first) {
    network_.detector = octet::read_detector(metadata_["detector"], path_);
    metadata_.erase("detector");
    std::map<int, std::string> names;
    for (const auto& [name, of] : values_)
      if (of.tensor >= 0 && network_.tensors[size_t(of.tensor)].type == DType::f32) names[of.tensor] = name;
    std::vector<std::string> logits, deltas;
    const int classes = network_.detector->classes;
    for (const DenseLevel& level : network_.detector->levels) {
      const auto sound = [&](Edge edge, int64_t width) {
        return names.contains(edge.id) &&
               shape(edge.id) == Shape{1, level.anchors.height, level.anchors.width, level.anchors.per_pixel() * width};
      };
      require(sound(level.logits, classes) && sound(level.deltas, 4),
              "a score for each class and a box of each anchor");
      logits.push_back(names[level.logits.id]);
      deltas.push_back(names[level.deltas.id]);
    }
    onnx::GraphProto expected;
    OnnxGraph graph(expected);
    append_detector(graph, *network_.detector, images_, logits, deltas);
    onnx::GraphProto found;
    for (int i = first; i < graph_.node_size(); ++i) *found.add_node() = graph_.node(i);
    for (const auto& of : graph_.initializer())
      if (of.name().starts_with(detector_prefix)) *found.add_initializer() = of;
    *found.mutable_output() = graph_.output();
    require(found.SerializeAsString() == expected.SerializeAsString(), "the operations of its detector");
  }

  void round(const Node& node, Value& y) {
    y = value(node, 0);
    require(y.operation.has_value(), "an operation before ", node.name());
    const Constant& zero = constant(node, 2);
    require(zero.codes.size() == 1, "one zero of ", node.name());
    const bool has_sign = zero.codes[0] != 0 || constant_type(node.input(2)) == onnx::TensorProto::INT8;
    end(y, has_sign ? DType::s8 : DType::u8, number(node, 1));
  }
  int constant_type(const std::string& name) const {
    return std::ranges::find(graph_.initializer(), name, &onnx::TensorProto::name)->data_type();
  }

  // The operation's result is codes, or logits.
  void end(Value& y, DType type, float scale) {
    require(std::isfinite(scale) && scale > 0, "positive scales");
    IntegerOperation& operation = *y.operation;
    y.tensor = int(network_.tensors.size());
    if (operation.inputs.empty())
      network_.tensors.push_back({images_, type, scale});
    else
      append_operation(network_, std::move(operation), type, scale);
    y.operation.reset();
  }

  IntegerOperation operation(const Node& node) {
    const std::string& type = node.op_type();
    if (type == "Conv" || type == "Gemm") return convolution(node, type == "Gemm");
    if (type == "Add") return sum(node);
    if (type == "Relu" && value(node, 0).tensor >= 0) return pool(node, {.kernel = 1, .stride = 1, .rectify = true});
    if (type == "Relu" || type == "Clip") {
      require(value(node, 0).operation.has_value(), "an operation before ", node.name());
      IntegerOperation operation = *value(node, 0).operation;
      operation.activation = type == "Relu" ? Activation::relu : Activation::relu6;
      require(type == "Relu" || (number(node, 1) == 0 && number(node, 2) == 6), "ReLU6");
      return operation;
    }
    if (type == "Resize") {
      const Constant& times = constant(node, 2);
      require(times.reals.size() == 4 && times.reals[2] == times.reals[3] && times.reals[3] >= 1, "whole repeats in ",
              node.name());
      return pool(node, {.kernel = int(times.reals[3]), .kind = PoolKind::repeat});
    }
    IntegerOperation operation;
    operation.name = name_of(node, ".real");
    for (int i = 0; i < node.input_size(); ++i) operation.inputs.push_back(tensor(node, i));
    const Shape x = shape(operation.inputs.at(0));
    if (type == "GlobalAveragePool") {
      operation.kind = Kind::mean;
      operation.conv = channelwise(x, {1, 1, 1, x.c}, int(x.h), int(x.w));
    } else if (type == "MaxPool" || type == "AveragePool") {
      PoolProblem p{.kernel = int(numbers(node, "kernel_shape", {0}).at(0)),
                    .stride = int(numbers(node, "strides", {1}).at(0)),
                    .pad = int(numbers(node, "pads", {0}).at(0)),
                    .kind = type == "MaxPool" ? PoolKind::max : PoolKind::average,
                    .count_padding = numbers(node, "count_include_pad", {0}).at(0) != 0};
      require(p.kernel > 0 && p.stride > 0 && p.pad >= 0 && p.pad < p.kernel, "a pool in ", node.name());
      return pool(node, p);
    } else if (type == "Concat") {
      operation.kind = Kind::concat;
    } else {
      REQUIRE_USAGE(false, "export the network again", path_, " has an operation that octet does not know: ", type);
    }
    return operation;
  }

  IntegerOperation pool(const Node& node, PoolProblem p) {
    IntegerOperation operation;
    operation.kind = Kind::pool;
    operation.name = name_of(node, ".real");
    operation.inputs = {tensor(node, 0)};
    p.x = shape(operation.inputs[0]);
    p.y = pooled_shape(p);
    operation.pool = p;
    return operation;
  }

  static std::string name_of(const Node& node, const std::string& ending) {
    const std::string& name = node.name();
    return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
  }

  IntegerOperation sum(const Node& node) {
    const int second = tensor(node, 1);
    if (value(node, 0).operation) {
      IntegerOperation operation = *value(node, 0).operation;
      require(operation.kind == Kind::convolution && operation.inputs.size() == 1, "a convolution before ",
              node.name());
      operation.inputs.push_back(second);
      return operation;
    }
    IntegerOperation operation;
    operation.kind = Kind::sum;
    operation.name = name_of(node, ".real");
    operation.inputs = {tensor(node, 0), second};
    const Shape x = shape(operation.inputs[0]);
    require(x == shape(second), "equal shapes before ", node.name());
    operation.conv = channelwise(x, x, 1, 1);
    return operation;
  }

  IntegerOperation convolution(const Node& node, bool matrix) {
    IntegerOperation operation;
    operation.kind = matrix ? Kind::linear : Kind::convolution;
    operation.name = matrix ? node.name() : name_of(node, ".real");
    operation.inputs = {tensor(node, 0)};
    ConvProblem& p = operation.conv;
    p.x = shape(operation.inputs[0]);
    const Constant &weight = constant(node, 1), &bias = constant(node, 2);
    const auto& w = weight.dims;
    require(w.size() == (matrix ? 2 : 4), "a weight of ", node.name());
    const auto strides = numbers(node, "strides", {1, 1}), dilations = numbers(node, "dilations", {1, 1}),
               pads = numbers(node, "pads", {0, 0, 0, 0});
    require(strides.size() == 2 && dilations.size() == 2 && pads.size() == 4, "two axes of ", node.name());
    p.groups = int(numbers(node, "group", {1}).at(0));
    p.kernel_h = int(matrix ? p.x.h : w[2]), p.kernel_w = int(matrix ? p.x.w : w[3]);
    p.stride_h = int(strides[0]), p.stride_w = int(strides[1]);
    p.dilation_h = int(dilations[0]), p.dilation_w = int(dilations[1]);
    p.pad_h = int(pads[0]), p.pad_w = int(pads[1]);
    require(p.groups > 0 && p.x.c % p.groups == 0 && p.kernel_h > 0 && p.kernel_w > 0 && p.stride_h > 0 &&
                p.stride_w > 0 && p.dilation_h > 0 && p.dilation_w > 0 && p.pad_h >= 0 && p.pad_w >= 0 &&
                pads[2] >= 0 && pads[3] >= 0,
            "a geometry of " + node.name());
    const auto extent = [](int64_t in, int kernel, int stride, int64_t pad, int dilation) {
      const int64_t room = in + pad - int64_t{dilation} * (kernel - 1) - 1;
      return room < 0 ? 0 : room / stride + 1;
    };
    p.y = {1, extent(p.x.h, p.kernel_h, p.stride_h, pads[0] + pads[2], p.dilation_h),
           extent(p.x.w, p.kernel_w, p.stride_w, pads[1] + pads[3], p.dilation_w), w[0]};
    require(p.y.elements() > 0 && w[0] % p.groups == 0, "an output of ", node.name());
    const Shape expected = p.weight();
    require(expected.elements() == int64_t(std::max(weight.codes.size(), weight.reals.size())) &&
                (matrix || w[1] == expected.c),
            "a fitting weight of ", node.name());
    read_codes(operation, weight, bias);
    return operation;
  }

  // Weights and biases, of one scale for each channel.
  void read_codes(IntegerOperation& operation, const Constant& weight, const Constant& bias) const {
    IntegerLayer& layer = operation.layer;
    const Shape w = operation.conv.weight();
    const auto channels = size_t(w.n);
    layer.weight_scale = weight.scales;
    if (weight.codes.empty() && scales_.contains(operation.name))
      for (const auto& scale : scales_[operation.name].value("weight", nlohmann::json::array()))
        layer.weight_scale.push_back(scale.is_number() ? scale.get<float>() : 0);
    require(layer.weight_scale.size() == channels &&
                std::ranges::all_of(layer.weight_scale, [](float s) { return s > 0; }) &&
                std::max(bias.codes.size(), bias.reals.size()) == channels,
            "a scale and a bias for each channel of " + operation.name);
    layer.weights.resize(size_t(w.elements()));
    size_t from = 0;
    for (int64_t o = 0; o < w.n; ++o)
      for (int64_t i = 0; i < w.c; ++i)
        for (int64_t pixel = 0; pixel < w.h * w.w; ++pixel, ++from) {
          const double code = weight.codes.empty()
                                  ? std::nearbyint(double(weight.reals[from]) / double(layer.weight_scale[size_t(o)]))
                                  : double(weight.codes[from]);
          require(std::abs(code) <= 127, "codes up to 127 in ", operation.name);
          layer.weights[size_t((o * w.h * w.w + pixel) * w.c + i)] = int8_t(code);
        }
    const float x = network_.tensors[size_t(operation.inputs[0])].scale;
    for (size_t c = 0; c < channels; ++c) {
      const double code = bias.codes.empty() ? std::nearbyint(double(bias.reals[c]) / double(x * layer.weight_scale[c]))
                                             : double(bias.codes[c]);
      require(std::abs(code) < 2147483648.0, "biases of 32 bits in ", operation.name);
      layer.bias.push_back(int32_t(code));
    }
  }

  const onnx::GraphProto& graph_;
  const std::string& path_;
  std::map<std::string, std::string> metadata_;
  nlohmann::json scales_;
  std::map<std::string, Constant> constants_;
  std::map<std::string, Value> values_;
  Shape images_;
  IntegerNetwork network_;
};

}  // namespace

NetworkFile read_onnx(const std::string& text, const std::string& path) {
  onnx::ModelProto model;
  REQUIRE_USAGE(model.ParseFromString(text), "export the network again", path, " is no ONNX file");
  return Reader(model, path).read();
}

}  // namespace octet
