#include "src/deploy/formats.h"

#include "kernels/base/error.h"
#include "src/deploy/litert.h"
#include "src/deploy/onnx.h"

namespace octet {
namespace {

template <OnnxForm form>
std::string onnx(const NetworkFile& model) {
  return write_onnx(model, form);
}

constexpr FileFormat formats[] = {
    {"onnxruntime", "ONNX Runtime", ".onnx", with_separate_sums, onnx<OnnxForm::unsigned_codes>, read_onnx},
    {"openvino", "OpenVINO", ".onnx", with_file_codes, onnx<OnnxForm::unsigned_codes>, read_onnx},
    {"tensorrt", "TensorRT", ".onnx", with_signed_codes, onnx<OnnxForm::signed_codes>, read_onnx},
    {"litert", "LiteRT", ".tflite", with_separate_sums, write_litert, read_litert},
    {"float", "programs that quantize by themselves", ".onnx", with_file_codes, onnx<OnnxForm::reals>, read_onnx},
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
