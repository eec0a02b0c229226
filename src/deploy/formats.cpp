#include "src/deploy/formats.h"

#include "kernels/base/error.h"
#include "src/deploy/c_source.h"
#include "src/deploy/litert.h"
#include "src/deploy/onnx.h"

namespace octet {
namespace {

template <OnnxForm form>
std::vector<NamedText> onnx(const NetworkFile& model, const std::string&) {
  return {{".onnx", write_onnx(model, form)}};
}
std::vector<NamedText> litert(const NetworkFile& model, const std::string&) {
  return {{".tflite", write_litert(model)}};
}
IntegerNetwork as_trained(IntegerNetwork network) { return network; }

constexpr char shares[] = "pixels / 255; the normalization is inside",
               bytes[] = "pixels as bytes; the normalization is inside";
constexpr char reals[] = "logits; a softmax makes probabilities",
               integers[] = "logits times 2^LOGIT_BITS; a softmax of the logits makes probabilities";

constexpr FileFormat formats[] = {
    {"onnxruntime", "ONNX Runtime", ".onnx", true, shares, reals, with_separate_sums, onnx<OnnxForm::unsigned_codes>,
     read_onnx},
    {"openvino", "OpenVINO", ".onnx", true, shares, reals, with_file_codes, onnx<OnnxForm::unsigned_codes>, read_onnx},
    {"tensorrt", "TensorRT", ".onnx", true, shares, reals, with_signed_codes, onnx<OnnxForm::signed_codes>, read_onnx},
    {"litert", "LiteRT", ".tflite", true, shares, reals, with_separate_sums, litert, read_litert},
    {"c", "compilers of C11", ".c", false, bytes, integers, as_trained, write_c, nullptr},
    {"float", "programs that quantize by themselves", ".onnx", true, shares, reals, with_file_codes,
     onnx<OnnxForm::reals>, read_onnx},
};

}  // namespace

std::string file_format_names() {
  std::string names;
  for (const FileFormat& of : formats) names += names.empty() ? of.name : say(", ", of.name);
  return names;
}

const FileFormat& file_format(const std::string& name) {
  for (const FileFormat& of : formats)
    if (of.name == name) return of;
  REQUIRE_USAGE(false, say("use one of ", file_format_names()), "there is no format `", name, "`");
}

}  // namespace octet
