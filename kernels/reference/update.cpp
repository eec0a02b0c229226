// The optimizers.
#include <cmath>

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

void ReferenceBackend::adamw_update(std::span<const AdamWStep> steps) {
  for (const auto& [problem, w, gradient, mean, square, lr_scale] : steps) {
    const float base = problem.learning_rate * problem.rate_factor;
    const float rate = lr_scale != nullptr ? base * *lr_scale : base;
    const float kept = 1 - rate * problem.decay, step = rate / problem.corrections.mean;
    const float share = 1 - problem.beta1, square_share = 1 - problem.beta2;
    for (int64_t i = 0; i < w.elements(); ++i) {
      const float slope = gradient.f32()[i];
      const float m = mean.f32()[i] + share * (slope - mean.f32()[i]);
      const float v = problem.beta2 * square.f32()[i] + square_share * slope * slope;
      mean.f32()[i] = m, square.f32()[i] = v;
      w.f32()[i] = w.f32()[i] * kept - step * (m / (std::sqrt(v) / problem.corrections.root + problem.epsilon));
    }
  }
}

void ReferenceBackend::move_average(float share, Tensor value, Tensor average) {
  for (int64_t i = 0; i < average.elements(); ++i) average.f32()[i] += share * (value.f32()[i] - average.f32()[i]);
}

}  // namespace octet
