// Quantization.
#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {

void CpuBackend::compute(const QuantizeCall& call) {
  const auto& encode = passes_.encode[index_of(call.from.dtype)];
  const auto kernel = [&](Sink sink, Span span, Target& target) {
    encode[static_cast<int>(sink)](call.from.data, span, target);
  };
  const int threads = options_.threads;
  const int64_t count = call.from.elements();
  float clip = 0;
  if (call.encoding.quantized()) {
    clip = clip_of(call.encoding, [&] { return absmax(threads, count, kernel); });
    *call.to.scale = scale_of(clip, call.encoding.qmax);
  }
  encode_tensor(threads, count, {passes_, call.encoding, call.key, clip, call.to.values.data, call.probe.sample},
                call.probe, kernel);
}

}  // namespace octet::cpu
