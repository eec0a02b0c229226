// The optimizers.
#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"

namespace octet::cpu {

void CpuBackend::sgd_update(std::span<const SgdStep> steps) {
  const auto pieces = pieces_of(steps.size(), piece_elements, [&](size_t i) { return steps[i].w.elements(); });
  parallel_for(threads_, static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const auto [tensor, first, count] = pieces[static_cast<size_t>(i)];
    const SgdStep& step = steps[tensor];
    const float rate = step.problem.rate() * (step.lr_scale != nullptr ? *step.lr_scale : 1.0f);
    passes_.sgd_update(step.problem, rate, step.w.f32() + first, step.gradient.f32() + first,
                       step.velocity.f32() + first, count);
  });
}

// As fast as memory in plain loops.
void CpuBackend::adamw_update(std::span<const AdamWStep> steps) {
  const auto pieces = pieces_of(steps.size(), piece_elements, [&](size_t i) { return steps[i].w.elements(); });
  parallel_for(threads_, static_cast<int64_t>(pieces.size()), [&](int64_t i) {
    const auto [tensor, first, count] = pieces[static_cast<size_t>(i)];
    AdamWStep piece = steps[tensor];
    for (Tensor* of : {&piece.w, &piece.gradient, &piece.mean, &piece.square})
      *of = {of->f32() + first, {1, 1, 1, count}};
    ReferenceBackend::adamw_update({&piece, 1});
  });
}

void CpuBackend::move_average(float share, Tensor value, Tensor average) {
  parallel_pieces(threads_, average.elements(), piece_elements, [&](int64_t first, int64_t count) {
    const Shape piece{1, 1, 1, count};
    ReferenceBackend::move_average(share, {value.f32() + first, piece}, {average.f32() + first, piece});
  });
}

}  // namespace octet::cpu
