// Quantization, the optimizer and the finiteness check: passes without per-channel coefficients.
#include <atomic>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"
#include "kernels/shared/checks.h"

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

void CpuBackend::sgd_update(const SgdProblem& problem, Tensor w, Tensor gradient, Tensor velocity,
                            const float* lr_scale) {
  const float rate = lr_scale != nullptr ? problem.rate() * *lr_scale : problem.rate();
  parallel_pieces(options_.threads, w.elements(), piece_elements, [&](int64_t first, int64_t count) {
    passes_.sgd_update(problem, rate, w.f32() + first, gradient.f32() + first, velocity.f32() + first, count);
  });
}

void CpuBackend::move_average(float share, Tensor value, Tensor average) {
  parallel_pieces(options_.threads, average.elements(), piece_elements, [&](int64_t first, int64_t count) {
    const Shape piece{1, 1, 1, count};
    ReferenceBackend::move_average(share, {value.f32() + first, piece}, {average.f32() + first, piece});
  });
}

void CpuBackend::add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) {
  std::atomic<bool> fits = true;
  parallel_pieces(options_.threads, values.elements(), piece_elements, [&](int64_t first, int64_t count) {
    int32_t outside = 0;
    ReferenceBackend::add_fixed({values.f32() + first, {1, 1, 1, count}}, sums + first, add, &outside);
    if (outside != 0) fits = false;
  });
  if (!fits) *beyond = 1;
}

void CpuBackend::read_fixed(const int64_t* sums, Tensor values) {
  parallel_pieces(options_.threads, values.elements(), piece_elements, [&](int64_t first, int64_t count) {
    ReferenceBackend::read_fixed(sums + first, {values.f32() + first, {1, 1, 1, count}});
  });
}

void CpuBackend::find_nonfinite(Tensor tensor, int32_t* found) {
  *found = 0;
  if (!is_real(tensor.dtype)) return;
  std::atomic<bool> finite = true;
  parallel_pieces(options_.threads, tensor.elements(), piece_elements, [&](int64_t first, int64_t count) {
    if (!passes_.all_finite[index_of(tensor.dtype)](tensor.data, Span{first, count})) finite = false;
  });
  *found = finite ? 0 : 1;
}

}  // namespace octet::cpu
