// Quantization.
#include <algorithm>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"

namespace octet {
using namespace reference;

void ReferenceBackend::compute(const QuantizeCall& call) {
  const auto largest = [&] { return absmax_of(call.from.elements(), [&](int64_t i) { return read(call.from, i); }); };
  if (call.probe.largest != nullptr) *call.probe.largest = std::max(*call.probe.largest, largest());
  if (!call.encoding.quantized()) {
    for (int64_t i = 0; i < call.from.elements(); ++i) {
      const float x = read(call.from, i);
      count_histogram(call.probe, i, x);
      write(call.to.values, i, x);
    }
    return;
  }
  const int64_t count = call.from.elements();
  const float clip = clip_of(call.encoding, largest);
  const Encoder encode(call.encoding, call.key, clip);
  *call.to.scale = encode.scale();
  for (int64_t i = 0; i < count; ++i) {
    const float x = read(call.from, i);
    count_histogram(call.probe, i, x);
    count_saturated(call.probe, x, clip);
    write_code(call.to.values, i, encode(x, i));
  }
}

}  // namespace octet
