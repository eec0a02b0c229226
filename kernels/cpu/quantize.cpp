// Quantization.
#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {
namespace {

auto kernel_of(const Passes& passes, const QuantizeCall& call) {
  const auto& encode = passes.encode[index_of(call.from.dtype)];
  return [&encode, from = call.from.data](Sink sink, Span span, Target& target) {
    encode[static_cast<int>(sink)](from, span, target);
  };
}
TensorEncoder encoder_of(const Passes& passes, const QuantizeCall& call, float clip) {
  return {passes, call.encoding, call.key, clip, call.to.values.data, call.probe.sample};
}
bool measures(const QuantizeCall& call) {
  return call.probe.histogram != nullptr || call.probe.saturated != nullptr || call.probe.largest != nullptr;
}

}  // namespace

void CpuBackend::compute(const QuantizeCall& call) {
  const auto kernel = kernel_of(passes_, call);
  const int64_t count = call.from.elements();
  float clip = 0;
  if (call.encoding.quantized()) {
    clip = clip_of(call.encoding, [&] { return absmax(threads_, count, kernel); });
    *call.to.scale = scale_of(clip, call.encoding.qmax);
  }
  encode_tensor(threads_, count, encoder_of(passes_, call, clip), call.probe, kernel);
}

// In two loops over the pieces of all tensors, since those of a network's weights are many, and most of them short.
void CpuBackend::compute_all(std::span<const QuantizeCall> calls) {
  if (std::ranges::any_of(calls, measures)) return ReferenceBackend::compute_all(calls);
  const auto pieces = pieces_of(calls.size(), piece_elements, [&](size_t i) { return calls[i].from.elements(); });
  const auto for_each = [&](const auto& work) {
    parallel_for(threads_, static_cast<int64_t>(pieces.size()), [&](int64_t i) {
      const auto [tensor, first, count] = pieces[static_cast<size_t>(i)];
      work(static_cast<size_t>(i), calls[tensor], tensor, Span{first, count});
    });
  };
  std::vector<float> maxima(pieces.size()), clips(calls.size());
  for_each([&](size_t piece, const QuantizeCall& call, size_t, const Span& span) {
    if (!call.encoding.quantized() || call.encoding.range == Range::held) return;
    Target target;
    kernel_of(passes_, call)(Sink::range, span, target);
    maxima[piece] = target.largest;
  });
  for (size_t i = 0; i < pieces.size(); ++i) clips[pieces[i].tensor] = std::max(clips[pieces[i].tensor], maxima[i]);
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].encoding.quantized()) continue;
    clips[i] = clip_of(calls[i].encoding, [&] { return clips[i]; });
    *calls[i].to.scale = scale_of(clips[i], calls[i].encoding.qmax);
  }
  for_each([&](size_t, const QuantizeCall& call, size_t tensor, const Span& span) {
    encoder_of(passes_, call, clips[tensor]).encode(span, nullptr, kernel_of(passes_, call));
  });
}

}  // namespace octet::cpu
