#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/base/error.h"
#include "src/deploy/litert.h"
#include "src/deploy/litert_generated.h"

namespace octet {
namespace {

using namespace litert;
using Kind = IntegerOperation::Kind;
constexpr int schema_version = 3;
constexpr int old_codes = 127;       // how many codes the field for old programs has
constexpr int unsigned_zero = -128;  // LiteRT's codes have a sign

// The least version of an operation that takes int8, which tells old programs whether they know it.
int version_of(Code code) {
  switch (code) {
    case Code::CONV_2D:
    case Code::DEPTHWISE_CONV_2D:
      return 3;
    case Code::ADD:
    case Code::AVERAGE_POOL_2D:
    case Code::BATCH_MATMUL:
    case Code::CONCATENATION:
    case Code::MAX_POOL_2D:
    case Code::MEAN:
    case Code::PAD:
      return 2;
    default:
      return 1;
  }
}

// One axis of a window that moves over an image.
struct Axis {
  int64_t in, out;
  int kernel, stride, pad, dilation = 1;
  bool is_valid() const { return pad == 0 && out == output_extent(in, kernel, stride, 0, dilation); }
  bool is_same() const {
    const Padded same = same_padding(in, kernel, stride, dilation);
    return same.out == out && same.pad == pad;
  }
  int end() const { return int(end_padding(in, out, kernel, stride, pad, dilation)); }
};

Fused fused(Activation activation) {
  return activation == Activation::relu ? Fused::RELU : activation == Activation::relu6 ? Fused::RELU6 : Fused::NONE;
}

class Writer {
 public:
  explicit Writer(const NetworkFile& of) : network_(of.network), codes_(network_.tensors.size()) {
    REQUIRE_USAGE(!network_.detector, "export it as ONNX", "a detector has no form in a LiteRT file");
    model_.version = schema_version;
    model_.description = "octet";
    model_.graphs.push_back(std::make_unique<GraphT>());
    model_.buffers.push_back(std::make_unique<BufferT>());  // of tensors that are no constants
    const std::string entries = nlohmann::json(of.metadata).dump();
    model_.metadata.push_back(std::make_unique<MetadataT>());
    model_.metadata.back()->name = "octet";
    model_.metadata.back()->buffer = buffer(entries);
  }

  std::string write() {
    add_images();
    for (const IntegerOperation& operation : network_.operations) add(operation);
    flatbuffers::FlatBufferBuilder builder;
    FinishModelBuffer(builder, Model::Pack(builder, &model_));
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }

 private:
  using Dims = std::vector<int32_t>;
  GraphT& graph() { return *model_.graphs.front(); }
  const IntegerTensor& tensor(int index) const { return network_.tensors[size_t(index)]; }
  int codes(const IntegerOperation& of, size_t i = 0) const { return codes_[size_t(of.inputs[i])]; }
  static Dims dims(const Shape& of) { return {int(of.n), int(of.h), int(of.w), int(of.c)}; }

  template <class Values>
  uint32_t buffer(const Values& values) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(values.data());
    model_.buffers.push_back(std::make_unique<BufferT>());
    model_.buffers.back()->data.assign(bytes, bytes + values.size() * sizeof(values[0]));
    return uint32_t(model_.buffers.size()) - 1;
  }

  // Each returns the index of the tensor.
  int add_tensor(const std::string& name, Dims shape, ElementType type) {
    auto added = std::make_unique<TensorT>();
    added->name = name, added->type = type;
    added->shape = added->shape_signature = std::move(shape);
    added->shape_signature[0] = -1;
    graph().tensors.push_back(std::move(added));
    return int(graph().tensors.size()) - 1;
  }
  template <class T>
  int constant(const std::string& name, Dims shape, const std::vector<T>& values) {
    const int added = add_tensor(name, std::move(shape),
                                 std::is_same_v<T, float>     ? ElementType::FLOAT32
                                 : std::is_same_v<T, int32_t> ? ElementType::INT32
                                                              : ElementType::INT8);
    graph().tensors.back()->shape_signature.clear();
    graph().tensors.back()->buffer = buffer(values);
    return added;
  }
  // What codes of the tensor that was added last stand for.
  void quantize(std::vector<float> scales, int64_t zero = 0, int axis = 0) {
    auto& quantization = graph().tensors.back()->quantization = std::make_unique<QuantizationT>();
    quantization->zero_point.assign(scales.size(), zero);
    quantization->scale = std::move(scales);
    quantization->axis = axis;
  }
  int add_codes(const std::string& name, const Shape& shape, const IntegerTensor& like) {
    const int added = add_tensor(name, dims(shape), ElementType::INT8);
    quantize({like.scale}, like.type == DType::u8 ? unsigned_zero : 0);
    return added;
  }
  int add_output(const IntegerOperation& of) {
    const IntegerTensor& to = tensor(of.output);
    return codes_[size_t(of.output)] = add_codes(of.name, to.shape, to);
  }

  void add(Code code, std::vector<int> inputs, int output) {
    const auto known =
        std::ranges::find_if(model_.codes, [&](const std::unique_ptr<OperatorCodeT>& of) { return of->code == code; });
    auto added = std::make_unique<OperatorT>();
    added->code = uint32_t(known - model_.codes.begin());
    added->inputs = std::move(inputs);
    added->outputs = {output};
    if (known == model_.codes.end()) {
      model_.codes.push_back(std::make_unique<OperatorCodeT>());
      OperatorCodeT& of = *model_.codes.back();
      of.code = code, of.version = version_of(code);
      of.old_code = int8_t(std::min(int(code), old_codes));
    }
    graph().operators.push_back(std::move(added));
  }
  // Returns the options of the operation, to be filled.
  template <class OptionsT>
  OptionsT& add(Code code, std::vector<int> inputs, int output) {
    add(code, std::move(inputs), output);
    OptionsUnion& options = graph().operators.back()->options;
    options.Set(OptionsT{});
    return *static_cast<OptionsT*>(options.value);
  }

  // The first convolution pads with normalized zeros, which no pixel is, so the normalization cannot be folded into it.
  // In real numbers each of the 256 pixels gets its code of the training.
  void add_images() {
    const Shape& images = tensor(0).shape;
    const auto real = [&](const char* name) { return add_tensor(name, dims(images), ElementType::FLOAT32); };
    const auto row = [&](const char* name, const std::array<float, 3>& of) {
      return constant<float>(name, {3}, {of.begin(), of.end()});
    };
    const int pixels = add_tensor("images", dims(images), ElementType::UINT8);
    quantize({1.0f / 255});
    graph().inputs = {pixels};
    const int reals = real("real_images"), centered = real("centered_images"), normalized = real("normalized_images");
    add(Code::DEQUANTIZE, {pixels}, reals);
    add(Code::SUB, {reals, row("mean", network_.pixels.mean)}, centered);
    add(Code::DIV, {centered, row("deviation", network_.pixels.deviation)}, normalized);
    add(Code::QUANTIZE, {normalized}, codes_[0] = add_codes("coded_images", images, tensor(0)));
  }

  void add(const IntegerOperation& operation) {
    if (operation.computes() && operation.kind != Kind::linear) {
      const int highest = operation.layer.output == DType::u8 ? 255 : 127;
      REQUIRE_USAGE(operation.layer.highest == highest || operation.activation == Activation::relu6,
                    "train with policy.bits.activation: 8", "'", operation.name,
                    "' has codes of fewer bits than a file says");
    }
    switch (operation.kind) {
      case Kind::convolution:
        return add_convolution(operation);
      case Kind::linear:
        return add_linear(operation);
      case Kind::sum:
        add<AddOptionsT>(Code::ADD, {codes(operation), codes(operation, 1)}, add_output(operation)).fused =
            fused(operation.activation);
        return;
      case Kind::mean:
        return add_mean(operation);
      case Kind::pool:
        return add_pool(operation);
      case Kind::concat:
        return add_concat(operation);
    }
  }

  // LiteRT pads as TensorFlow's SAME says, or not at all. Other zeros are an operation of their own. x becomes what it
  // writes.
  Padding padded(int& x, const IntegerOperation& of, const Axis& h, const Axis& w, bool zeros_count = false) {
    if (h.is_valid() && w.is_valid()) return Padding::VALID;
    if (h.is_same() && w.is_same() && !zeros_count) return Padding::SAME;
    const IntegerTensor& from = tensor(of.inputs[0]);
    const int zeros = constant<int32_t>(of.name + ".zeros", {4, 2}, {0, 0, h.pad, h.end(), w.pad, w.end(), 0, 0});
    const Shape shape{1, h.in + h.pad + h.end(), w.in + w.pad + w.end(), from.shape.c};
    const int to = add_codes(of.name + ".padded", shape, from);
    add(Code::PAD, {x, zeros}, to);
    x = to;
    return Padding::VALID;
  }

  int bias(const IntegerOperation& of, const std::vector<int32_t>& codes) {
    const int added = constant(of.name + ".bias", {int(codes.size())}, codes);
    std::vector<float> units;
    for (const float scale : of.layer.weight_scale) units.push_back(of.layer.input_scale * scale);
    quantize(units);
    return added;
  }

  void add_convolution(const IntegerOperation& of) {
    const ConvProblem& p = of.conv;
    const Shape w = p.weight();
    const bool depthwise = p.groups > 1 && w.c == 1;
    REQUIRE(of.inputs.size() == 1, "change the network by with_separate_sums()", "'", of.name, "' has a shortcut");
    REQUIRE_USAGE(depthwise || p.groups == 1, "export for another program", "'", of.name,
                  "' has groups of several channels, which have no form in LiteRT");
    int x = codes(of);
    const Padding padding = padded(x, of, {p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h},
                                   {p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w});
    const int weight = depthwise ? constant(of.name + ".weight", {1, int(w.h), int(w.w), int(w.n)}, channels_last(of))
                                 : constant(of.name + ".weight", dims(w), of.layer.weights);
    quantize(of.layer.weight_scale, 0, depthwise ? 3 : 0);
    const std::vector<int> inputs = {x, weight, bias(of, of.layer.bias)};
    const int output = add_output(of);
    const auto describe = [&](auto& how) {
      how.padding = padding, how.fused = fused(of.activation);
      how.stride_h = p.stride_h, how.stride_w = p.stride_w;
      how.dilation_h = p.dilation_h, how.dilation_w = p.dilation_w;
    };
    if (!depthwise) return describe(add<ConvOptionsT>(Code::CONV_2D, inputs, output));
    auto& how = add<DepthwiseOptionsT>(Code::DEPTHWISE_CONV_2D, inputs, output);
    describe(how);
    how.multiplier = int(p.y.c / p.x.c);
  }
  // Of a depthwise convolution: from (C, H, W) to (H, W, C).
  static std::vector<int8_t> channels_last(const IntegerOperation& of) {
    const std::vector<int8_t>& weights = of.layer.weights;
    const size_t channels = size_t(of.conv.y.c), pixels = weights.size() / channels;
    std::vector<int8_t> moved;
    for (size_t pixel = 0; pixel < pixels; ++pixel)
      for (size_t c = 0; c < channels; ++c) moved.push_back(weights[c * pixels + pixel]);
    return moved;
  }

  // LiteRT's FULLY_CONNECTED of codes writes at most 16 bits. A product of matrices writes the sums themselves. It
  // knows no zero points: 128 is added to unsigned codes by the bias.
  void add_linear(const IntegerOperation& of) {
    const Shape w = of.conv.weight();
    const int inputs = int(w.h * w.w * w.c), outputs = int(w.n);
    const IntegerTensor& from = tensor(of.inputs[0]);
    const int flat = add_tensor(of.name + ".codes", {1, inputs}, ElementType::INT8);
    add(Code::RESHAPE, {codes(of), constant<int32_t>(of.name + ".shape", {2}, {-1, inputs})}, flat);
    const int weight = constant(of.name + ".weight", {outputs, inputs}, of.layer.weights);
    quantize(of.layer.weight_scale);
    const int products = add_tensor(of.name, {1, outputs}, ElementType::INT32);
    add<MatrixOptionsT>(Code::BATCH_MATMUL, {flat, weight}, products).transposes_second = true;

    std::vector<int32_t> biases = of.layer.bias;
    std::vector<float> units;
    for (size_t i = 0; i < biases.size(); ++i) {
      const auto row = of.layer.weights.begin() + ptrdiff_t(i) * inputs;
      if (from.type == DType::u8) biases[i] -= unsigned_zero * std::accumulate(row, row + inputs, 0);
      units.push_back(float(of.layer.factor[i]));
    }
    const int sums = add_tensor(of.name + ".sums", {1, outputs}, ElementType::INT32);
    add<AddOptionsT>(Code::ADD, {products, bias(of, biases)}, sums);
    const int reals = add_tensor(of.name + ".reals", {1, outputs}, ElementType::FLOAT32);
    add(Code::CAST, {sums}, reals);
    const int logits = add_tensor("logits", {1, outputs}, ElementType::FLOAT32);
    add(Code::MUL, {reals, constant(of.name + ".units", {outputs}, units)}, logits);
    graph().outputs = {logits};
  }

  void add_mean(const IntegerOperation& of) {
    const int axes = constant<int32_t>(of.name + ".axes", {2}, {1, 2});
    add<ReduceOptionsT>(Code::MEAN, {codes(of), axes}, add_output(of)).keeps_axes = true;
  }

  void add_pool(const IntegerOperation& of) {
    const PoolProblem& p = of.pool;
    const bool average = p.kind == PoolKind::average;
    int x = codes(of);
    const Padding padding = padded(x, of, {p.x.h, p.y.h, p.kernel, p.stride, p.pad},
                                   {p.x.w, p.y.w, p.kernel, p.stride, p.pad}, average && p.count_padding);
    const bool zeros = x != codes(of);
    REQUIRE_USAGE(!p.rectify && (!zeros || (average ? p.count_padding : tensor(of.inputs[0]).type == DType::u8)),
                  "export for another program", "'", of.name, "' has no form in LiteRT");
    auto& how = add<PoolOptionsT>(average ? Code::AVERAGE_POOL_2D : Code::MAX_POOL_2D, {x}, add_output(of));
    how.padding = padding;
    how.stride_h = how.stride_w = p.stride;
    how.kernel_h = how.kernel_w = p.kernel;
  }

  // LiteRT's parts must have the scale of the whole. Those that have not are rounded to it.
  void add_concat(const IntegerOperation& of) {
    const IntegerTensor& to = tensor(of.output);
    std::vector<int> parts;
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      const IntegerTensor& part = tensor(of.inputs[i]);
      parts.push_back(codes(of, i));
      if (part.scale == to.scale && part.type == to.type) continue;
      const int rounded = add_codes(say(of.name, ".part", i), part.shape, to);
      add(Code::QUANTIZE, {parts.back()}, rounded);
      parts.back() = rounded;
    }
    add<ConcatOptionsT>(Code::CONCATENATION, parts, add_output(of)).axis = 3;
  }

  const IntegerNetwork& network_;
  std::vector<int> codes_;  // by tensor: its index in the file
  ModelT model_;
};

}  // namespace

std::string write_litert(const NetworkFile& network) { return Writer(network).write(); }

}  // namespace octet
