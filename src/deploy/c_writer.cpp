// Integer networks as C files.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/base/error.h"
#include "src/deploy/c_functions.h"
#include "src/deploy/c_source.h"
#include "src/deploy/formats.h"

namespace octet {
namespace {

using Kind = IntegerOperation::Kind;
constexpr size_t columns = 110;

// A comment would end at the first of these marks.
std::string in_comment(std::string text) {
  for (size_t at = text.find("*/"); at != std::string::npos; at = text.find("*/", at)) text.replace(at, 2, "* /");
  return text;
}

// Bytes beyond ASCII stay, as UTF-8. Two question marks could begin a trigraph.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '?')
      result += '\\', result += c;
    else if (uint8_t(c) < ' ' || c == 127)
      result += fmt::format("\\{:03o}", uint8_t(c));
    else
      result += c;
  }
  return result + '"';
}

template <class Number>
std::string numbers_of(const char* type, const std::string& name, const std::vector<Number>& values) {
  std::string text = fmt::format("static const {} {}[{}] = {{", type, name, values.size()), line = "  ";
  for (const Number value : values) {
    const std::string next = fmt::format("{},", int64_t(value));
    if (line.size() + next.size() > columns) text += '\n' + line, line = "  ";
    line += next;
  }
  return text + '\n' + line + "};\n";
}

constexpr std::array<std::string_view, 29> headers_of_c = {
    "assert", "complex",     "ctype",  "errno",    "fenv",    "float",     "inttypes", "iso646", "limits", "locale",
    "math",   "setjmp",      "signal", "stdalign", "stdarg",  "stdatomic", "stdbool",  "stddef", "stdint", "stdio",
    "stdlib", "stdnoreturn", "string", "tgmath",   "threads", "time",      "uchar",    "wchar",  "wctype"};

std::string shape_text(const Shape& of) { return fmt::format("{{{}, {}, {}}}", of.h, of.w, of.c); }
std::string upper(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return name;
}

class Writer {
 public:
  Writer(const NetworkFile& of, const std::string& name)
      : file_(of), network_(of.network), name_(name), prefix_(upper(name)), buffer_(c_buffer(of.network)) {
    REQUIRE_USAGE(!network_.detector, "export a classifier, or export it for onnxruntime", "'",
                  network_.operations.back().name,
                  "' has no form in C: it writes the boxes of a detector, which are real");
    if (const auto found = of.metadata.find("classes"); found != of.metadata.end())
      nlohmann::json::parse(found->second).get_to(classes_);
  }

  std::vector<NamedText> write() {
    for (size_t i = 0; i < network_.operations.size(); ++i) add(network_.operations[i], int(i));
    return {{".h", header()}, {".c", source()}, {example_ending, example()}};
  }

 private:
  const IntegerTensor& tensor(int index) const { return network_.tensors[size_t(index)]; }
  static bool is_signed(const IntegerTensor& of) { return of.type == DType::s8; }
  std::string place(int index) const { return fmt::format("b + {}", buffer_.offset[size_t(index)]); }
  void call(const char* function, const std::string& arguments, const IntegerOperation& of) {
    const Shape& y = tensor(of.output).shape;
    calls_ +=
        fmt::format("  {}({}); /* {}: {} x {} x {} */\n", function, arguments, in_comment(of.name), y.h, y.w, y.c);
  }

  void add(const IntegerOperation& operation, int number) {
    data_ += fmt::format("\n/* {} */\n", in_comment(operation.name));
    const std::string x = place(operation.inputs[0]), y = place(operation.output);
    switch (operation.kind) {
      case Kind::convolution:
        return add_convolution(operation, number);
      case Kind::linear:
        add_layer(operation, number, c_logits(operation).factors);
        uses_.insert({c_text::logits, c_text::products, c_text::linear});
        return call("classify", fmt::format("&layer_{}, {}, logits", number, x), operation);
      case Kind::mean:
        add_layer(operation, number, c_factors(operation.name, operation.layer));
        uses_.insert({c_text::code, c_text::mean});
        return call("average_image", fmt::format("&layer_{}, {}, {}", number, x, y), operation);
      case Kind::pool:
        return add_pool(operation, number);
      case Kind::concat:
        return add_concat(operation, number);
      case Kind::sum:
        REQUIRE(false, "write the network as it was trained", "'", operation.name, "' is a sum alone");
    }
  }

  void add_convolution(const IntegerOperation& operation, int number) {
    REQUIRE_USAGE(operation.layer.output != DType::f32, "export a classifier whose last layer is linear", "'",
                  operation.name, "' has no form in C: its output is real");
    add_layer(operation, number, c_factors(operation.name, operation.layer));
    const ConvProblem& p = operation.conv;
    const bool depthwise = p.groups == p.x.c && p.y.c == p.x.c;
    uses_.insert(c_text::code);
    uses_.insert(depthwise ? c_text::depthwise : c_text::convolution);
    if (!depthwise) uses_.insert(c_text::products);
    const std::string shortcut = operation.inputs.size() > 1 ? place(operation.inputs[1]) : "0";
    call(depthwise ? "convolve_channels" : "convolve",
         fmt::format("&layer_{}, {}, {}, {}", number, place(operation.inputs[0]), shortcut, place(operation.output)),
         operation);
  }

  void add_layer(const IntegerOperation& operation, int number, const CFactors& factors) {
    const ConvProblem& p = operation.conv;
    const IntegerLayer& layer = operation.layer;
    const bool weighs = operation.kind != Kind::mean;
    const auto named = [&](const char* what) { return fmt::format("{}_{}", what, number); };
    if (weighs) data_ += numbers_of("int8_t", named("weights"), layer.weights);
    data_ += numbers_of("int32_t", named("bias"), layer.bias) + numbers_of("int32_t", named("factor"), factors.factor);
    const bool shortcut = !factors.shortcut_factor.empty();
    if (shortcut) data_ += numbers_of("int64_t", named("shortcut_factor"), factors.shortcut_factor);
    data_ += numbers_of("uint8_t", named("shift"), factors.shift);
    data_ += fmt::format("static const layer layer_{} = {{\n  {}, {},\n", number, shape_text(p.x), shape_text(p.y));
    data_ += fmt::format("  {}, {}, {}, {}, {}, {}, {}, {}, {},\n", p.kernel_h, p.kernel_w, p.stride_h, p.stride_w,
                         p.pad_h, p.pad_w, p.dilation_h, p.dilation_w, p.groups);
    data_ += fmt::format("  {:d}, {:d}, {}, {},\n", is_signed(tensor(operation.inputs[0])),
                         shortcut && is_signed(tensor(operation.inputs[1])), layer.lowest, layer.highest);
    data_ += fmt::format("  {}, {}, {}, {}, {}}};\n", weighs ? named("weights") : "0", named("bias"), named("factor"),
                         shortcut ? named("shortcut_factor") : "0", named("shift"));
    uses_.insert(c_text::layer);
  }

  void add_pool(const IntegerOperation& operation, int number) {
    const PoolProblem& p = operation.pool;
    REQUIRE_USAGE(p.kind != PoolKind::repeat, "export a classifier", "'", operation.name,
                  "' has no form in C: it enlarges an image");
    data_ += fmt::format("static const pool pool_{} = {{{}, {}, {}, {}, {}, {:d}, {:d}, {:d}}};\n", number,
                         shape_text(p.x), shape_text(p.y), p.kernel, p.stride, p.pad,
                         is_signed(tensor(operation.inputs[0])), p.rectify, p.count_padding);
    const bool largest = p.kind == PoolKind::max;
    uses_.insert(c_text::pool);
    uses_.insert(largest ? c_text::maximum : c_text::average);
    call(largest ? "take_largest" : "take_mean",
         fmt::format("&pool_{}, {}, {}", number, place(operation.inputs[0]), place(operation.output)), operation);
  }

  void add_concat(const IntegerOperation& operation, int number) {
    const IntegerTensor& whole = tensor(operation.output);
    uses_.insert(c_text::concat);
    int64_t first = 0;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const IntegerTensor& part = tensor(operation.inputs[i]);
      REQUIRE_USAGE(part.type == whole.type, "export it for onnxruntime", "'", operation.name,
                    "' has no form in C: it joins codes with a sign and codes without");
      std::string codes = "0";
      if (part.scale != whole.scale) {
        codes = fmt::format("codes_{}_{}", number, i);
        data_ += numbers_of("uint8_t", codes, rounded_codes(part, whole.scale));
      }
      const Shape& shape = part.shape;
      call("join",
           fmt::format("{}, {}, {}, {}, {}, {}", place(operation.inputs[i]), shape.h * shape.w, shape.c, codes,
                       fmt::format("b + {}", buffer_.offset[size_t(operation.output)] + size_t(first)), whole.shape.c),
           operation);
      first += shape.c;
    }
  }
  // By byte: the code of the larger scale.
  static std::vector<uint8_t> rounded_codes(const IntegerTensor& part, float scale) {
    std::vector<uint8_t> codes;
    for (int byte = 0; byte < 256; ++byte) {
      const int code = is_signed(part) ? int8_t(byte) : byte;
      codes.push_back(uint8_t(int(std::nearbyint(float(code) * (part.scale / scale)))));
    }
    return codes;
  }

  std::string about() const {
    std::string text = fmt::format("{}: an image classifier of integers, {}", name_, c_mark);
    for (const auto& [key, value] : file_.metadata)
      if (key != "classes") text += fmt::format("\n   {}: {}", key, value);
    return in_comment(text);
  }

  std::string header() const {
    const Shape& images = network_.tensors[0].shape;
    const Shape& logits = network_.tensors.back().shape;
    const CLogits last = c_logits(network_.operations.back());
    std::string text =
        fmt::format("/* {} */\n#ifndef {}_H\n#define {}_H\n#include <stdint.h>\n\n", about(), prefix_, prefix_);
    const auto define = [&](const char* what, const std::string& value, const char* why) {
      text += fmt::format("#define {}_{} {}{}\n", prefix_, what, value, why);
    };
    define("HEIGHT", fmt::to_string(images.h), "");
    define("WIDTH", fmt::to_string(images.w), "");
    define("CLASSES", fmt::to_string(logits.elements()), "");
    define("BUFFER_BYTES", fmt::to_string(buffer_.bytes), "");
    define("LOGIT_BITS", fmt::to_string(-std::ilogb(last.scale)),
           " /* a logit is a real number times 2 to this power */");
    text += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    if (!classes_.empty())
      text += fmt::format("\nextern const char *const {}_class_names[{}_CLASSES];\n", name_, prefix_);
    text += fmt::format(
        "\n/* pixels: {}_HEIGHT x {}_WIDTH x 3 bytes, rows from the top, red, green and blue side by side.\n"
        "   buffer: {}_BUFFER_BYTES bytes of any alignment, whose contents do not matter.\n"
        "   logits: {}_CLASSES numbers; the largest one is the answer's. A softmax of the real ones makes "
        "probabilities. */\n"
        "void {}_run(const uint8_t *pixels, void *buffer, int32_t *logits);\n",
        prefix_, prefix_, prefix_, prefix_, name_);
    text += fmt::format(
        "\n/* The index of the largest logit, of equal ones the first. */\nint32_t {}_best(const int32_t *logits);\n",
        name_);
    return text + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  }

  std::string source() const {
    std::string text = fmt::format("/* {} */\n#include \"{}.h\"\n", about(), name_);
    text += c_text::common;
    for (const char* const part : c_text::in_order)
      if (uses_.contains(part)) text += part;
    const auto codes = codes_of_pixels(network_);
    std::vector<int8_t> all;
    for (const auto& of_channel : codes) all.insert(all.end(), of_channel.begin(), of_channel.end());
    text += "\n/* Of red, green and blue: the code of each byte. */\n" + numbers_of("int8_t", "code_of_pixel", all);
    text += c_text::images;
    text += data_;
    if (!classes_.empty()) {
      text += fmt::format("\nconst char *const {}_class_names[{}_CLASSES] = {{\n", name_, prefix_);
      for (const std::string& of : classes_) text += "  " + quoted(of) + ",\n";
      text += "};\n";
    }
    const Shape& images = network_.tensors[0].shape;
    text += fmt::format(
        "\nvoid {}_run(const uint8_t *pixels, void *buffer, int32_t *logits) {{\n  uint8_t *const b = buffer;\n"
        "  encode(pixels, {}, {});\n{}}}\n",
        name_, images.h * images.w, place(0), calls_);
    text += fmt::format(
        "\nint32_t {}_best(const int32_t *logits) {{\n  int32_t best = 0, i;\n"
        "  for (i = 1; i < {}_CLASSES; ++i)\n    if (logits[i] > logits[best]) best = i;\n  return best;\n}}\n",
        name_, prefix_);
    return text;
  }

  std::string example() const {
    const std::string names = classes_.empty() ? "\"\"" : name_ + "_class_names[best]";
    return fmt::format(c_text::example, fmt::arg("name", name_), fmt::arg("prefix", prefix_), fmt::arg("mark", c_mark),
                       fmt::arg("class_name", names));
  }

  const NetworkFile& file_;
  const IntegerNetwork& network_;
  const std::string name_, prefix_;
  const CBuffer buffer_;
  std::vector<std::string> classes_;
  std::set<const char*> uses_;  // of the functions' texts
  std::string data_, calls_;
};

}  // namespace

std::vector<NamedText> write_c(const NetworkFile& file, const std::string& name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  REQUIRE_USAGE(!name.empty() && is_letter(name[0]) &&
                    std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); }),
                "name it with letters, digits and _, as names in C are", "'", name,
                "' begins no name in C, and the functions of the network begin with it");
  REQUIRE_USAGE(std::ranges::count(headers_of_c, name) == 0, "choose another name", "'", name,
                ".h' is a header of C, and firmware would find this one in its place");
  return Writer(file, name).write();
}

}  // namespace octet
