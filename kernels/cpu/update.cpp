// The optimizer.
#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {

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

}  // namespace octet::cpu
