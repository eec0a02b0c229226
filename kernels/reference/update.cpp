// The optimizer.
#include "kernels/reference/backend.h"

namespace octet {

void ReferenceBackend::sgd_update(std::span<const SgdStep> steps) {
  for (const auto& [problem, w, gradient, velocity, lr_scale] : steps) {
    const float rate = lr_scale != nullptr ? problem.rate() * *lr_scale : problem.rate();
    for (int64_t i = 0; i < w.elements(); ++i) {
      float &weight = w.f32()[i], &speed = velocity.f32()[i];
      const float slope = gradient.f32()[i] + problem.decay * weight;
      speed = problem.momentum * speed + slope;
      weight -= rate * (problem.nesterov ? slope + problem.momentum * speed : speed);
    }
  }
}

void ReferenceBackend::move_average(float share, Tensor value, Tensor average) {
  for (int64_t i = 0; i < average.elements(); ++i) average.f32()[i] += share * (value.f32()[i] - average.f32()[i]);
}

}  // namespace octet
