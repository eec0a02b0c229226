// Integer networks as C: a header and a source file without libraries, memory allocation or floating point.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/deploy/network.h"

namespace octet {

// How C rounds a layer's sums: code = (sum factor + shortcut shortcut_factor) / 2^shift, ties to even. By channel.
struct CFactors {
  std::vector<int32_t> factor;
  std::vector<int64_t> shortcut_factor;  // empty: there is no shortcut
  std::vector<uint8_t> shift;
};
// The factors of a layer as integers, exactly. UsageError: no shift below 63 holds them; the message names the layer.
CFactors c_factors(const std::string& name, const IntegerLayer&);

// The logits of the last layer in C: int32 numbers of one scale, which is as fine as 32 bits allow.
struct CLogits {
  CFactors factors;
  double scale = 1;  // the real value of 1
};
CLogits c_logits(const IntegerOperation& last);

// Where tensors lie in the buffer that the caller gives.
struct CBuffer {
  std::vector<size_t> offset;  // by tensor; logits have none
  size_t bytes = 0;
};
CBuffer c_buffer(const IntegerNetwork&);

// The codes of pixels: by channel and byte.
std::array<std::array<int8_t, 256>, 3> codes_of_pixels(const IntegerNetwork&);

// NAME.h, NAME.c and, as an example, NAME_main.c, which reads an image's bytes from standard input. The name begins
// every name in the header. UsageError: an operation has no form in C; the message names it.
std::vector<NamedText> write_c(const NetworkFile&, const std::string& name);

}  // namespace octet
