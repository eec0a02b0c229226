// Running statistics.
#include "kernels/reference/backend.h"

namespace octet {

void ReferenceBackend::update_running(Moments batch, int64_t count, float momentum, Tensor running_mean,
                                      Tensor running_variance) {
  const float correction = count > 1 ? static_cast<float>(static_cast<double>(count) / (count - 1)) : 1.0f;
  for (int64_t i = 0; i < running_mean.elements(); ++i) {
    float &mean = running_mean.f32()[i], &variance = running_variance.f32()[i];
    mean = (1 - momentum) * mean + momentum * batch.mean[i];
    variance = (1 - momentum) * variance + momentum * (batch.variance[i] * correction);
  }
}

}  // namespace octet
