#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "kernels/base/error.h"
#include "src/deploy/litert.h"
#include "src/deploy/litert_generated.h"

namespace octet {
namespace {

using namespace litert;
using Kind = IntegerOperation::Kind;
constexpr int64_t most_elements = int64_t{1} << 31;  // of a tensor
constexpr int most_of_a_window = 1 << 15;            // its kernel, stride and dilation
constexpr int unsigned_zero = -128;                  // LiteRT's codes have a sign

// What a tensor of the file stands for, if it is no constant.
struct Value {
  int tensor = -1;  // of the network; -1: the images before they are codes
  // Zeros around it.
  int before_h = 0, before_w = 0, behind_h = 0, behind_w = 0;
  bool has_zeros() const { return before_h > 0 || before_w > 0 || behind_h > 0 || behind_w > 0; }
};

Activation activation_of(Fused fused) {
  return fused == Fused::RELU ? Activation::relu : fused == Fused::RELU6 ? Activation::relu6 : Activation::none;
}

class Reader {
 public:
  Reader(const ModelT& model, const std::string& path) : model_(model), path_(path) {
    require(model.graphs.size() == 1 && graph().inputs.size() == 1, "one graph with one input");
    values_[graph().inputs[0]] = {};
  }

  NetworkFile read() {
    for (const auto& entry : model_.metadata)
      if (entry->name == "octet") read_metadata(entry->buffer);
    for (const auto& operation : graph().operators) read(*operation);
    require(!network_.tensors.empty() && network_.tensors.back().type == DType::f32, "logits");
    network_.input_range = network_.tensors.front().scale * float(network_.input_highest);
    return {std::move(network_), std::move(metadata_)};
  }

 private:
  void require(bool holds, std::string_view what, const std::string& of = {}) const {
    REQUIRE_USAGE(holds, "export the network again", path_, " is no network that octet can read: it needs ", what, of);
  }
  const GraphT& graph() const { return *model_.graphs.front(); }
  const std::vector<uint8_t>& buffer(uint32_t index) const {
    require(index < model_.buffers.size(), "all of its constants");
    return model_.buffers[index]->data;
  }
  void read_metadata(uint32_t index) {
    const nlohmann::json entries = nlohmann::json::parse(buffer(index), nullptr, false);
    require(entries.is_object() && std::ranges::all_of(entries, [](const auto& text) { return text.is_string(); }),
            "texts as metadata");
    metadata_ = entries.get<std::map<std::string, std::string>>();
  }

  const TensorT& tensor(int index) const {
    require(index >= 0 && size_t(index) < graph().tensors.size(), "all of its tensors");
    return *graph().tensors[size_t(index)];
  }
  const TensorT& input(const OperatorT& of, size_t i) const {
    require(i < of.inputs.size(), "one more input of ", name(of));
    return tensor(of.inputs[i]);
  }
  const TensorT& output(const OperatorT& of) const { return tensor(of.outputs[0]); }
  const std::string& name(const OperatorT& of) const { return output(of).name; }
  const Value& value(const OperatorT& of, size_t i = 0) const {
    require(i < of.inputs.size() && values_.contains(of.inputs[i]), "one more input of ", name(of));
    return values_.at(of.inputs[i]);
  }
  int codes(const OperatorT& of, size_t i = 0) const {
    const Value& read = value(of, i);
    require(read.tensor >= 0 && !read.has_zeros(), "codes before ", name(of));
    return read.tensor;
  }
  const IntegerTensor& tensor_of(const Value& value, const OperatorT& of) const {
    require(value.tensor >= 0, "codes before ", name(of));
    return network_.tensors[size_t(value.tensor)];
  }
  const Shape& shape(int index) const { return network_.tensors[size_t(index)].shape; }

  template <class T>
  std::vector<T> constant(const OperatorT& of, size_t i) const {
    const TensorT& constant = input(of, i);
    int64_t elements = 1;
    for (const int64_t dim : constant.shape) {
      require(dim > 0 && dim < most_elements / elements, "constants of a sound size");
      elements *= dim;
    }
    const auto& bytes = buffer(constant.buffer);
    require(bytes.size() == size_t(elements) * sizeof(T), "a whole constant ", constant.name);
    std::vector<T> values(size_t(elements), T{});
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  template <class Options>
  const Options& options(const OperatorT& of, const Options* found) const {
    require(found != nullptr, "options of ", name(of));
    return *found;
  }

  void read(const OperatorT& of) {
    require(of.code < model_.codes.size() && of.outputs.size() == 1 && !values_.contains(of.outputs[0]),
            "one output of each operation");
    values_[of.outputs[0]] = result(of, model_.codes[of.code]->code);
  }

  Value result(const OperatorT& of, Code code) {
    switch (code) {
      case Code::DEQUANTIZE:
      case Code::CAST:
      case Code::RESHAPE:
      case Code::MUL:
        return value(of);
      case Code::SUB:
      case Code::DIV:
        return pixels(of, code == Code::SUB ? network_.pixels.mean : network_.pixels.deviation);
      case Code::QUANTIZE:
        return value(of).tensor < 0 ? images(of) : value(of);
      case Code::PAD:
        return padded(of);
      case Code::CONV_2D:
        return convolution(of, options(of, of.options.AsConvOptions()), false);
      case Code::DEPTHWISE_CONV_2D:
        return convolution(of, options(of, of.options.AsDepthwiseOptions()), true);
      case Code::BATCH_MATMUL:
        return matrix(of);
      case Code::ADD:
        return matrix_.name.empty() ? sum(of) : logits(of);
      case Code::MEAN:
        return mean(of);
      case Code::AVERAGE_POOL_2D:
      case Code::MAX_POOL_2D:
        return pool(of, options(of, of.options.AsPoolOptions()), code == Code::AVERAGE_POOL_2D);
      case Code::CONCATENATION:
        return concat(of);
    }
    REQUIRE_USAGE(false, "export the network again", path_, " has an operation that octet does not know: ", int(code));
  }

  Value pixels(const OperatorT& of, std::array<float, 3>& row) {
    const auto read = constant<float>(of, 1);
    require(read.size() == row.size(), "three channels");
    std::ranges::copy(read, row.begin());
    return value(of);
  }

  // The type and scale of what an operation writes.
  std::pair<DType, float> form(const OperatorT& of) const {
    const auto& read = output(of).quantization;
    require(read && read->scale.size() == 1 && read->zero_point.size() == 1 &&
                (read->zero_point[0] == 0 || read->zero_point[0] == unsigned_zero) && std::isfinite(read->scale[0]) &&
                read->scale[0] > 0,
            "a scale and a zero point of octet's for ", name(of));
    return {read->zero_point[0] == 0 ? DType::s8 : DType::u8, read->scale[0]};
  }
  Value images(const OperatorT& of) {
    const auto& extents = output(of).shape;
    require(network_.tensors.empty() && extents.size() == 4, "images with 4 extents");
    const auto [type, scale] = form(of);
    network_.tensors.push_back({sound({1, extents[1], extents[2], extents[3]}, of), type, scale});
    return {0};
  }
  const Shape& sound(const Shape& shape, const OperatorT& of) const {
    int64_t elements = 1;
    for (const int64_t extent : {shape.h, shape.w, shape.c}) {
      require(extent > 0 && extent < most_elements / elements, "a sound size of ", name(of));
      elements *= extent;
    }
    return shape;
  }

  Value padded(const OperatorT& of) const {
    const auto zeros = constant<int32_t>(of, 1);
    require(zeros.size() == 8 && std::ranges::all_of(zeros, [](int32_t n) { return n >= 0; }) && zeros[0] == 0 &&
                zeros[1] == 0 && zeros[6] == 0 && zeros[7] == 0,
            "zeros around images before ", name(of));
    return {codes(of), zeros[2], zeros[4], zeros[3], zeros[5]};
  }

  IntegerOperation begin(Kind kind, const std::vector<int>& inputs, const OperatorT& of) const {
    IntegerOperation operation;
    operation.kind = kind, operation.name = name(of), operation.inputs = inputs;
    return operation;
  }
  Value end(IntegerOperation operation, DType type, float scale) {
    append_operation(network_, std::move(operation), type, scale);
    return {int(network_.tensors.size()) - 1};
  }
  Value end(IntegerOperation operation, const OperatorT& of) {
    const auto [type, scale] = form(of);
    return end(std::move(operation), type, scale);
  }

  static bool fits_window(std::initializer_list<int> extents) {
    return std::ranges::all_of(extents, [](int extent) { return extent > 0 && extent <= most_of_a_window; });
  }
  // Where a window begins along one axis, and how often it fits.
  static Padded window(Padding padding, int64_t in, int before, int64_t behind, int kernel, int stride,
                       int dilation = 1) {
    if (padding == Padding::SAME) return same_padding(in, kernel, stride, dilation);
    return {output_extent(before + in + behind, kernel, stride, 0, dilation), before};
  }

  template <class Options>
  Value convolution(const OperatorT& of, const Options& how, bool depthwise) {
    const Value& x = value(of);
    IntegerOperation operation = begin(Kind::convolution, {x.tensor}, of);
    operation.activation = activation_of(how.fused);
    ConvProblem& p = operation.conv;
    p.x = tensor_of(x, of).shape;
    const auto& w = input(of, 1).shape;
    operation.layer.weights = constant<int8_t>(of, 1);
    require(w.size() == 4 && fits_window({w[1], w[2], how.stride_h, how.stride_w, how.dilation_h, how.dilation_w}) &&
                (how.padding == Padding::VALID || !x.has_zeros()),
            "a geometry of ", name(of));
    p.kernel_h = w[1], p.kernel_w = w[2];
    p.stride_h = how.stride_h, p.stride_w = how.stride_w;
    p.dilation_h = how.dilation_h, p.dilation_w = how.dilation_w;
    p.groups = depthwise ? int(p.x.c) : 1;
    const Padded h = window(how.padding, p.x.h, x.before_h, x.behind_h, p.kernel_h, p.stride_h, p.dilation_h);
    const Padded v = window(how.padding, p.x.w, x.before_w, x.behind_w, p.kernel_w, p.stride_w, p.dilation_w);
    p.pad_h = h.pad, p.pad_w = v.pad;
    p.y = sound({1, h.out, v.out, w[depthwise ? 3 : 0]}, of);
    require(w[depthwise ? 0 : 3] == (depthwise ? 1 : p.x.c) && p.y.c % p.groups == 0, "a fitting weight of ", name(of));
    if (depthwise) operation.layer.weights = channels_first(operation.layer.weights, size_t(p.y.c));
    read_scales(operation.layer, of);
    read_bias(operation, of, 2);
    return end(std::move(operation), of);
  }
  static std::vector<int8_t> channels_first(const std::vector<int8_t>& weights, size_t channels) {
    std::vector<int8_t> moved;
    for (size_t c = 0; c < channels; ++c)
      for (size_t i = c; i < weights.size(); i += channels) moved.push_back(weights[i]);
    return moved;
  }
  // Of the second input, the weights.
  void read_scales(IntegerLayer& layer, const OperatorT& of) const {
    const auto& read = input(of, 1).quantization;
    require(read && std::ranges::all_of(read->scale, [](float s) { return std::isfinite(s) && s > 0; }),
            "scales of the weights of ", name(of));
    require(std::ranges::find(layer.weights, int8_t{-128}) == layer.weights.end(), "codes up to 127 in ", name(of));
    layer.weight_scale = read->scale;
  }
  void read_bias(IntegerOperation& operation, const OperatorT& of, size_t i) const {
    operation.layer.bias = constant<int32_t>(of, i);
    const auto channels = size_t(operation.conv.y.c);
    require(operation.layer.weight_scale.size() == channels && operation.layer.bias.size() == channels,
            "a scale and a bias for each channel of ", name(of));
  }

  // A product of matrices is read in two parts: the bias is the next operation.
  Value matrix(const OperatorT& of) {
    const int x = codes(of);
    const auto& w = input(of, 1).shape;
    matrix_ = begin(Kind::linear, {x}, of);
    ConvProblem& p = matrix_.conv;
    p.x = shape(x);
    p.kernel_h = int(p.x.h), p.kernel_w = int(p.x.w);
    require(w.size() == 2 && w[1] == p.x.elements() && !matrix_.name.empty(), "a matrix that fits in ", name(of));
    p.y = sound({1, 1, 1, w[0]}, of);
    matrix_.layer.weights = constant<int8_t>(of, 1);
    read_scales(matrix_.layer, of);
    return value(of);
  }
  Value logits(const OperatorT& of) {
    IntegerLayer& layer = matrix_.layer;
    read_bias(matrix_, of, 1);
    const auto inputs = ptrdiff_t(layer.weights.size() / layer.bias.size());
    if (network_.tensors[size_t(matrix_.inputs[0])].type == DType::u8)
      for (size_t i = 0; i < layer.bias.size(); ++i) {
        const auto row = layer.weights.begin() + ptrdiff_t(i) * inputs;
        layer.bias[i] =
            int32_t(layer.bias[i] + int64_t{unsigned_zero} * std::accumulate(row, row + inputs, int64_t{0}));
      }
    return end(std::exchange(matrix_, {}), DType::f32, 1);
  }

  Value sum(const OperatorT& of) {
    IntegerOperation operation = begin(Kind::sum, {codes(of), codes(of, 1)}, of);
    const Shape x = shape(codes(of));
    require(x == shape(codes(of, 1)), "equal shapes before ", name(of));
    operation.activation = activation_of(options(of, of.options.AsAddOptions()).fused);
    operation.conv = channelwise(x, x, 1, 1);
    return end(std::move(operation), of);
  }

  Value mean(const OperatorT& of) {
    IntegerOperation operation = begin(Kind::mean, {codes(of)}, of);
    const Shape x = shape(codes(of));
    operation.conv = channelwise(x, {1, 1, 1, x.c}, int(x.h), int(x.w));
    return end(std::move(operation), of);
  }

  Value pool(const OperatorT& of, const PoolOptionsT& how, bool average) {
    const Value& x = value(of);
    IntegerOperation operation = begin(Kind::pool, {x.tensor}, of);
    PoolProblem& p = operation.pool;
    p.kind = average ? PoolKind::average : PoolKind::max;
    p.x = tensor_of(x, of).shape;
    p.kernel = how.kernel_h, p.stride = how.stride_h;
    require(fits_window({p.kernel, p.stride}) && how.kernel_w == p.kernel && how.stride_w == p.stride &&
                (how.padding == Padding::VALID || !x.has_zeros()),
            "a square window of ", name(of));
    p.pad = window(how.padding, p.x.h, x.before_h, x.behind_h, p.kernel, p.stride).pad;
    p.count_padding = average && x.has_zeros();
    require(p.pad < p.kernel, "a window larger than its zeros in ", name(of));
    p.y = sound(pooled_shape(p), of);
    return end(std::move(operation), of);
  }

  Value concat(const OperatorT& of) {
    std::vector<int> parts;
    Shape whole = shape(codes(of));
    whole.c = 0;
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      parts.push_back(codes(of, i));
      const Shape& part = shape(parts.back());
      require(part.h == whole.h && part.w == whole.w, "parts of one size in ", name(of));
      whole.c += part.c;
    }
    sound(whole, of);
    return end(begin(Kind::concat, parts, of), of);
  }

  const ModelT& model_;
  const std::string& path_;
  std::map<int, Value> values_;  // by tensor of the file
  IntegerOperation matrix_;      // whose bias is not read yet; else without a name
  std::map<std::string, std::string> metadata_;
  IntegerNetwork network_;
};

}  // namespace

NetworkFile read_litert(const std::string& content, const std::string& path) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
  flatbuffers::Verifier verifier(bytes, content.size());
  REQUIRE_USAGE(content.size() > 8 && ModelBufferHasIdentifier(bytes) && VerifyModelBuffer(verifier),
                "export the network again", path, " is no LiteRT file");
  const std::unique_ptr<ModelT> model = UnPackModel(bytes);
  return Reader(*model, path).read();
}

}  // namespace octet
