#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "onnx/onnx.pb.h"
#include "src/deploy/onnx.h"

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
    graph().set_name("octet");
    for (const auto& [key, text] : of.metadata) add_metadata(key, text);
  }

  std::string write() {
    add_images();
    for (const IntegerOperation& operation : network_.operations) add(operation);
    if (form_ == OnnxForm::reals) add_metadata("scales", scales_.dump());
    return model_.SerializeAsString();
  }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  const IntegerTensor& tensor(int index) const { return network_.tensors[size_t(index)]; }
  const std::string& input(const IntegerOperation& of, size_t i = 0) const { return names_[size_t(of.inputs[i])]; }

  void add_metadata(const std::string& key, const std::string& text) {
    auto* const entry = model_.add_metadata_props();
    entry->set_key(key), entry->set_value(text);
  }
  // Appends a node and returns the name of its output.
  std::string add_node(const char* type, const std::vector<std::string>& inputs, const std::string& output) {
    last_ = graph().add_node();
    last_->set_op_type(type);
    last_->set_name(output);
    for (const std::string& of : inputs) last_->add_input(of);
    last_->add_output(output);
    return output;
  }
  // Attributes of the node that was appended last.
  void set(const char* name, int64_t value) {
    auto* const attribute = last_->add_attribute();
    attribute->set_name(name), attribute->set_type(onnx::AttributeProto::INT), attribute->set_i(value);
  }
  void set(const char* name, const std::vector<int64_t>& values) {
    auto* const attribute = last_->add_attribute();
    attribute->set_name(name), attribute->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute->add_ints(value);
  }

  template <class T>
  std::string constant(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& of) {
    auto* const added = graph().add_initializer();
    added->set_name(name);
    added->set_data_type(std::is_same_v<T, float>     ? onnx::TensorProto::FLOAT
                         : std::is_same_v<T, int32_t> ? onnx::TensorProto::INT32
                         : std::is_same_v<T, uint8_t> ? onnx::TensorProto::UINT8
                                                      : onnx::TensorProto::INT8);
    for (const int64_t dim : dims) added->add_dims(dim);
    added->set_raw_data(of.data(), of.size() * sizeof(T));
    return name;
  }
  std::string real(const std::string& name, float value) { return constant<float>(name, {}, {value}); }

  // A constant of codes that nodes read as real numbers: codes times scales, one for each index of the first axis.
  template <class T>
  std::string coded(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& codes,
                    const std::vector<float>& scales) {
    if (form_ == OnnxForm::reals) {
      std::vector<float> reals;
      const size_t row = codes.size() / scales.size();
      for (size_t i = 0; i < codes.size(); ++i) reals.push_back(float(double(codes[i]) * double(scales[i / row])));
      return constant(name, dims, reals);
    }
    const std::string scale = constant(name + ".scale", {int64_t(scales.size())}, scales);
    // ONNX Runtime computes a matrix whose weight has no zero in real numbers.
    const std::string zero = constant(name + ".zero", {int64_t(scales.size())}, std::vector<T>(scales.size()));
    const std::string read = add_node("DequantizeLinear", {constant(name + ".codes", dims, codes), scale, zero}, name);
    set("axis", 0);
    return read;
  }

  // Ends an operation whose real result is `from`: rounds it to the tensor's codes, and reads them back by that name.
  void finish(int index, const std::string& from, const std::string& name) {
    const IntegerTensor& to = tensor(index);
    names_[size_t(index)] = name;
    if (form_ == OnnxForm::reals) {
      last_->set_output(0, name);
      scales_[name]["activation"] = to.scale;
      scales_[name]["type"] = to.type == DType::u8 ? "uint8" : "int8";
      return;
    }
    const std::string scale = real(name + ".scale", to.scale), point = name + ".zero";
    if (form_ == OnnxForm::signed_codes) {
      REQUIRE(to.type == DType::s8, "change the network by with_signed_codes()", "'", name, "' has unsigned codes");
      constant<int8_t>(point, {}, {0});
    } else {
      constant<uint8_t>(point, {}, {to.type == DType::u8 ? uint8_t{0} : signed_zero});
    }
    const std::string codes = add_node("QuantizeLinear", {from, scale, point}, name + ".codes");
    add_node("DequantizeLinear", {codes, scale, point}, name);
  }

  // dims: 0 is the batch, of any size.
  static void describe(onnx::ValueInfoProto& info, const std::string& name, const std::vector<int64_t>& dims) {
    info.set_name(name);
    auto* const type = info.mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : dims) {
      auto* const to = type->mutable_shape()->add_dim();
      dim == 0 ? to->set_dim_param("N") : to->set_dim_value(dim);
    }
  }

  void add_images() {
    const Shape& images = tensor(0).shape;
    describe(*graph().add_input(), "images", {0, images.c, images.h, images.w});
    const auto row = [&](const char* name, const std::array<float, 3>& of) {
      return constant<float>(name, {1, 3, 1, 1}, {of.begin(), of.end()});
    };
    const std::string centered = add_node("Sub", {"images", row("mean", network_.pixels.mean)}, "centered_images");
    const std::string normalized =
        add_node("Div", {centered, row("deviation", network_.pixels.deviation)}, "normalized_images");
    finish(0, normalized, "coded_images");
  }

  void add(const IntegerOperation& operation) {
    switch (operation.kind) {
      case Kind::convolution:
        return add_convolution(operation);
      case Kind::linear:
        return add_linear(operation);
      case Kind::sum:
        return activate(operation, add_node("Add", {input(operation), input(operation, 1)}, operation.name + ".real"));
      case Kind::mean:
        return activate(operation, add_node("GlobalAveragePool", {input(operation)}, operation.name + ".real"));
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
  std::vector<std::string> constants(const IntegerOperation& of, const std::vector<int64_t>& dims) {
    const IntegerLayer& layer = of.layer;
    const std::string weight =
        coded(of.name + ".weight", dims, channels_first(layer.weights, of.conv.weight()), layer.weight_scale);
    std::vector<float> units;
    for (const float scale : layer.weight_scale) units.push_back(layer.input_scale * scale);
    if (form_ == OnnxForm::reals) scales_[of.name]["weight"] = layer.weight_scale;
    return {weight, coded(of.name + ".bias", {int64_t(units.size())}, layer.bias, units)};
  }

  void add_convolution(const IntegerOperation& of) {
    const ConvProblem& p = of.conv;
    const Shape w = p.weight();
    const auto weights = constants(of, {w.n, w.c, w.h, w.w});
    std::string y = add_node("Conv", {input(of), weights[0], weights[1]}, of.name + ".real");
    set("kernel_shape", {p.kernel_h, p.kernel_w});
    set("strides", {p.stride_h, p.stride_w});
    set("dilations", {p.dilation_h, p.dilation_w});
    set("group", p.groups);
    set("pads", {p.pad_h, p.pad_w, end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
                 end_padding(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w)});
    if (of.inputs.size() > 1) y = add_node("Add", {y, input(of, 1)}, of.name + ".added");
    activate(of, y);
  }

  void activate(const IntegerOperation& of, std::string y) {
    const int highest = of.layer.output == DType::u8 ? 255 : 127;
    REQUIRE_USAGE(of.layer.highest == highest || of.activation == Activation::relu6,
                  "train with policy.bits.activation: 8", "'", of.name, "' has codes of fewer bits than a file says");
    if (of.activation == Activation::relu) y = add_node("Relu", {y}, of.name + ".relu");
    if (of.activation == Activation::relu6)
      y = add_node("Clip", {y, real(of.name + ".least", 0), real(of.name + ".most", 6)}, of.name + ".relu6");
    finish(of.output, y, of.name);
  }

  // The codes are flattened, and then read: runtimes fuse a matrix only with what lies right before it.
  std::string flattened(const std::string& from, const std::string& name) {
    const bool reals = form_ == OnnxForm::reals;
    const std::string flat = add_node("Flatten", {reals ? from : from + ".codes"}, reals ? name : name + ".codes");
    set("axis", 1);
    return reals ? flat : add_node("DequantizeLinear", {flat, from + ".scale", from + ".zero"}, name);
  }

  void add_linear(const IntegerOperation& of) {
    const Shape w = of.conv.weight();
    const std::string flat = flattened(input(of), of.name + ".flat");
    const auto weights = constants(of, {w.n, w.c * w.h * w.w});
    add_node("Gemm", {flat, weights[0], weights[1]}, "logits");
    last_->set_name(of.name);
    set("transB", 1);
    describe(*graph().add_output(), "logits", {0, w.n});
  }

  void add_pool(const IntegerOperation& of) {
    const PoolProblem& p = of.pool;
    REQUIRE_USAGE(!p.rectify, "export a classifier", "'", of.name, "' has no form in ONNX");
    const bool average = p.kind == PoolKind::average;
    const std::string y = add_node(average ? "AveragePool" : "MaxPool", {input(of)}, of.name + ".real");
    set("kernel_shape", {p.kernel, p.kernel});
    set("strides", {p.stride, p.stride});
    set("pads", {p.pad, p.pad, p.pad, p.pad});
    if (average) set("count_include_pad", p.count_padding ? 1 : 0);
    finish(of.output, y, of.name);
  }

  void add_concat(const IntegerOperation& of) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < of.inputs.size(); ++i) parts.push_back(input(of, i));
    const std::string y = add_node("Concat", parts, of.name + ".real");
    set("axis", 1);
    finish(of.output, y, of.name);
  }

  const IntegerNetwork& network_;
  const OnnxForm form_;
  std::vector<std::string> names_;  // by tensor: of its real values
  nlohmann::ordered_json scales_ = nlohmann::ordered_json::object();
  onnx::ModelProto model_;
  onnx::NodeProto* last_ = nullptr;
};

}  // namespace

std::string write_onnx(const NetworkFile& model, OnnxForm form) { return Writer(model, form).write(); }

}  // namespace octet
