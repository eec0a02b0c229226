// Integer networks as ONNX files. In the QDQ form each tensor is rounded and read back by a pair of QuantizeLinear and
// DequantizeLinear, which runtimes fuse into operations on integers.
#pragma once
#include <string>

#include "src/deploy/network.h"

namespace octet {

enum class OnnxForm : uint8_t {
  unsigned_codes,  // QDQ; codes are uint8, those with a sign 128 higher
  signed_codes,    // QDQ; codes are int8. The network must have no others
  reals,           // without rounding; each weight is a code times its scale, and the metadata `scales` has all scales
};

// The serialized ModelProto, opset 19. Input `images`: N x 3 x H x W float32, red, green and blue in [0, 1]. Output
// `logits`: N x classes float32. UsageError: an operation has no form in ONNX; the message names it.
std::string write_onnx(const NetworkFile&, OnnxForm);

// What write_onnx() has written, from its text. UsageError: another program wrote it, or it is damaged. path: for
// messages.
NetworkFile read_onnx(const std::string& text, const std::string& path);

}  // namespace octet
