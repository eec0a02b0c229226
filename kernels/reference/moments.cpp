// Running statistics.
#include "kernels/reference/backend.h"

namespace octet {

void ReferenceBackend::update_running(std::span<const RunningStep> steps) {
  for (const RunningStep& step : steps) {
    const auto& [batch, count, momentum, means, variances] = step;
    for (int64_t i = 0; i < means.elements(); ++i) {
      float &mean = means.f32()[i], &variance = variances.f32()[i];
      mean = (1 - momentum) * mean + momentum * batch.mean[i];
      variance = (1 - momentum) * variance + momentum * (batch.variance[i] * step.correction());
    }
  }
}

}  // namespace octet
