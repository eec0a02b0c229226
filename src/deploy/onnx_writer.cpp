#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/deploy/onnx.h"
#include "src/deploy/onnx_detector.h"
#include "src/deploy/onnx_graph.h"

namespace octet {
namespace {

using Kind = IntegerOperation::Kind;
constexpr int opset = 19;  // the first one under which the standard's own evaluator runs QDQ
constexpr int ir_version = 9;
constexpr uint8_t signed_zero = 128;

class Writer {
 public:
  Writer(const NetworkFile& of, OnnxForm form) : network_(of.network), form_(form), names_(network_.tensors.size()) {
    model_.set_ir_version(ir_version);
    model_.set_producer_name("octet");
    model_.add_opset_import()->set_version(opset);
    model_.mutable_graph()->set_name("octet");
    for (const auto& [key, text] : of.metadata) add_metadata(key, text);
  }

  std::string write() {
    add_images();
    for (const IntegerOperation& operation : network_.operations) add(operation);
    if (network_.detector) add_detector(*network_.detector);
    if (form_ == OnnxForm::reals) add_metadata("scales", scales_.dump());
    return model_.SerializeAsString();
  }

 private:
  const IntegerTensor& tensor(int index) const { return network_.tensors[size_t(index)]; }
  const std::string& input(const IntegerOperation& of, size_t i = 0) const { return names_[size_t(of.inputs[i])]; }

  void add_metadata(const std::string& key, const std::string& text) {
    auto* const entry = model_.add_metadata_props();
    entry->set_key(key), entry->set_value(text);
  }

  // A constant of codes that nodes read as real numbers: codes times scales, one for each index of the first axis.
  template <class T>
  std::string coded(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& codes,
                    const std::vector<float>& scales) {
    if (form_ == OnnxForm::reals) {
      std::vector<float> reals;
      const size_t row = codes.size() / scales.size();
      for (size_t i = 0; i < codes.size(); ++i) reals.push_back(float(double(codes[i]) * double(scales[i / row])));
      return graph_.constant(name, dims, reals);
    }
    const std::string scale = graph_.constant(name + ".scale", {int64_t(scales.size())}, scales);
    // ONNX Runtime computes a matrix whose weight has no zero in real numbers.
    const std::string zero = graph_.constant(name + ".zero", {int64_t(scales.size())}, std::vector<T>(scales.size()));
    const std::string read =
        graph_.node("DequantizeLinear", {graph_.constant(name + ".codes", dims, codes), scale, zero}, name);
    graph_.set("axis", 0);
    return read;
  }

  // Ends an operation whose real result is `from`: rounds it to the tensor's codes, and reads them back by that name.
  void finish(int index, const std::string& from, const std::string& name) {
    const IntegerTensor& to = tensor(index);
    names_[size_t(index)] = name;
    if (form_ == OnnxForm::reals) {
      graph_.last().set_output(0, name);
      scales_[name]["activation"] = to.scale;
      scales_[name]["type"] = to.type == DType::u8 ? "uint8" : "int8";
      return;
    }
    const std::string scale = graph_.number(name + ".scale", to.scale), point = name + ".zero";
    if (form_ == OnnxForm::signed_codes) {
      REQUIRE(to.type == DType::s8, "change the network by with_signed_codes()", "'", name, "' has unsigned codes");
      graph_.constant<int8_t>(point, {}, {0});
    } else {
      graph_.constant<uint8_t>(point, {}, {to.type == DType::u8 ? uint8_t{0} : signed_zero});
    }
    const std::string codes = graph_.node("QuantizeLinear", {from, scale, point}, name + ".codes");
    graph_.node("DequantizeLinear", {codes, scale, point}, name);
  }

  void add_images() {
    const Shape& images = tensor(0).shape;
    OnnxGraph::describe(graph_.add_input(), "images", {0, images.c, images.h, images.w});
    const auto row = [&](const char* name, const std::array<float, 3>& of) {
      return graph_.constant<float>(name, {1, 3, 1, 1}, {of.begin(), of.end()});
    };
    const std::string centered = graph_.node("Sub", {"images", row("mean", network_.pixels.mean)}, "centered_images");
    const std::string normalized =
        graph_.node("Div", {centered, row("deviation", network_.pixels.deviation)}, "normalized_images");
    finish(0, normalized, "coded_images");
  }

  void add(const IntegerOperation& operation) {
    switch (operation.kind) {
      case Kind::convolution:
        return add_convolution(operation);
      case Kind::linear:
        return add_linear(operation);
      case Kind::sum:
        return activate(operation,
                        graph_.node("Add", {input(operation), input(operation, 1)}, operation.name + ".real"));
      case Kind::mean:
        return activate(operation, graph_.node("GlobalAveragePool", {input(operation)}, operation.name + ".real"));
      case Kind::pool:
        return add_pool(operation);
      case Kind::concat:
        return add_concat(operation);
    }
  }

  // From OHWI to OIHW, as ONNX has weights.
  static std::vector<int8_t> channels_first(const std::vector<int8_t>& weights, const Shape& w) {
    std::vector<int8_t> moved(weights.size());
    for (int64_t o = 0; o < w.n; ++o)
      for (int64_t pixel = 0; pixel < w.h * w.w; ++pixel)
        for (int64_t i = 0; i < w.c; ++i)
          moved[size_t((o * w.c + i) * w.h * w.w + pixel)] = weights[size_t((o * w.h * w.w + pixel) * w.c + i)];
    return moved;
  }
  // Layers with the same weights, those of a detector's heads at all levels, read one constant.
  std::string shared_weight(const IntegerOperation& of, const std::vector<int64_t>& dims) {
    const IntegerLayer& layer = of.layer;
    std::string bytes(reinterpret_cast<const char*>(layer.weights.data()), layer.weights.size());
    bytes.append(reinterpret_cast<const char*>(layer.weight_scale.data()), layer.weight_scale.size() * sizeof(float));
    std::string& name = weights_[std::move(bytes)];
    if (name.empty())
      name = coded(of.name + ".weight", dims, channels_first(layer.weights, of.conv.weight()), layer.weight_scale);
    return name;
  }
  std::vector<std::string> constants(const IntegerOperation& of, const std::vector<int64_t>& dims) {
    const IntegerLayer& layer = of.layer;
    const std::string weight = shared_weight(of, dims);
    std::vector<float> units;
    for (const float scale : layer.weight_scale) units.push_back(layer.input_scale * scale);
    if (form_ == OnnxForm::reals) scales_[of.name]["weight"] = layer.weight_scale;
    return {weight, coded(of.name + ".bias", {int64_t(units.size())}, layer.bias, units)};
  }

  void add_convolution(const IntegerOperation& of) {
    const ConvProblem& p = of.conv;
    const Shape w = p.weight();
    const auto weights = constants(of, {w.n, w.c, w.h, w.w});
    const bool rounded = of.layer.output != DType::f32;
    std::string y = graph_.node("Conv", {input(of), weights[0], weights[1]}, rounded ? of.name + ".real" : of.name);
    graph_.set("kernel_shape", std::vector<int64_t>{p.kernel_h, p.kernel_w});
    graph_.set("strides", std::vector<int64_t>{p.stride_h, p.stride_w});
    graph_.set("dilations", std::vector<int64_t>{p.dilation_h, p.dilation_w});
    graph_.set("group", p.groups);
    graph_.set("pads", std::vector<int64_t>{p.pad_h, p.pad_w,
                                            end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
                                            end_padding(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w)});
    if (of.inputs.size() > 1) y = graph_.node("Add", {y, input(of, 1)}, of.name + ".added");
    if (!rounded)
      names_[size_t(of.output)] = y;
    else
      activate(of, y);
  }

  void activate(const IntegerOperation& of, std::string y) {
    const int highest = of.layer.output == DType::u8 ? 255 : 127;
    REQUIRE_USAGE(of.layer.highest == highest || of.activation == Activation::relu6,
                  "train with policy.bits.activation: 8", "'", of.name, "' has codes of fewer bits than a file says");
    if (of.activation == Activation::relu) y = graph_.node("Relu", {y}, of.name + ".relu");
    if (of.activation == Activation::relu6)
      y = graph_.node("Clip", {y, graph_.number(of.name + ".least", 0.0f), graph_.number(of.name + ".most", 6.0f)},
                      of.name + ".relu6");
    finish(of.output, y, of.name);
  }

  // The codes are flattened, and then read: runtimes fuse a matrix only with what lies right before it.
  std::string flattened(const std::string& from, const std::string& name) {
    const bool reals = form_ == OnnxForm::reals;
    const std::string flat = graph_.node("Flatten", {reals ? from : from + ".codes"}, reals ? name : name + ".codes");
    graph_.set("axis", 1);
    return reals ? flat : graph_.node("DequantizeLinear", {flat, from + ".scale", from + ".zero"}, name);
  }

  void add_linear(const IntegerOperation& of) {
    const Shape w = of.conv.weight();
    const std::string flat = flattened(input(of), of.name + ".flat");
    const auto weights = constants(of, {w.n, w.c * w.h * w.w});
    graph_.node("Gemm", {flat, weights[0], weights[1]}, "logits");
    graph_.last().set_name(of.name);
    graph_.set("transB", 1);
    OnnxGraph::describe(graph_.add_output(), "logits", {0, w.n});
  }

  void add_pool(const IntegerOperation& of) {
    const PoolProblem& p = of.pool;
    const std::string real = of.name + ".real";
    if (p.kind == PoolKind::repeat) {
      const auto times = float(p.kernel);
      const std::string scales = graph_.constant<float>(of.name + ".times", {4}, {1, 1, times, times});
      const std::string y = graph_.node("Resize", {input(of), "", scales}, real);
      graph_.set("mode", "nearest");
      graph_.set("coordinate_transformation_mode", "asymmetric");
      graph_.set("nearest_mode", "floor");
      return finish(of.output, y, of.name);
    }
    if (p.rectify && p.kernel == 1 && p.stride == 1)
      return finish(of.output, graph_.node("Relu", {input(of)}, real), of.name);
    REQUIRE_USAGE(!p.rectify, "export another network", "'", of.name, "' has no form in ONNX");
    const bool average = p.kind == PoolKind::average;
    const std::string y = graph_.node(average ? "AveragePool" : "MaxPool", {input(of)}, real);
    graph_.set("kernel_shape", std::vector<int64_t>{p.kernel, p.kernel});
    graph_.set("strides", std::vector<int64_t>{p.stride, p.stride});
    graph_.set("pads", std::vector<int64_t>{p.pad, p.pad, p.pad, p.pad});
    if (average) graph_.set("count_include_pad", p.count_padding ? 1 : 0);
    finish(of.output, y, of.name);
  }

  void add_detector(const DenseDetectOptions& of) {
    std::vector<std::string> logits, deltas;
    for (const DenseLevel& level : of.levels) {
      logits.push_back(names_[size_t(level.logits.id)]);
      deltas.push_back(names_[size_t(level.deltas.id)]);
    }
    append_detector(graph_, of, tensor(0).shape, logits, deltas);
    add_metadata("detector", detector_text(of));
  }

  void add_concat(const IntegerOperation& of) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < of.inputs.size(); ++i) parts.push_back(input(of, i));
    const std::string y = graph_.node("Concat", parts, of.name + ".real");
    graph_.set("axis", 1);
    finish(of.output, y, of.name);
  }

  const IntegerNetwork& network_;
  const OnnxForm form_;
  std::vector<std::string> names_;  // by tensor: of its real values
  nlohmann::ordered_json scales_ = nlohmann::ordered_json::object();
  std::map<std::string, std::string> weights_;  // by their bytes: the name under which the model has them
  onnx::ModelProto model_;
  OnnxGraph graph_{*model_.mutable_graph()};
};

}  // namespace

std::string write_onnx(const NetworkFile& model, OnnxForm form) { return Writer(model, form).write(); }

}  // namespace octet
