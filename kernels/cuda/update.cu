// The optimizer.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;

__global__ void sgd_kernel(const __grid_constant__ SgdProblem p, const StepState* state, const float* lr_scale,
                           float* w, const float* gradient, float* velocity, int64_t count) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const float base = (state != nullptr ? state->learning_rate : p.learning_rate) * p.rate_factor;
  const float rate = lr_scale != nullptr ? base * *lr_scale : base;
  const float weight = w[i], slope = gradient[i] + p.decay * weight;
  const float speed = p.momentum * velocity[i] + slope;
  velocity[i] = speed;
  w[i] = weight - rate * (p.nesterov ? slope + p.momentum * speed : speed);
}

__global__ void move_average_kernel(float share, const float* value, float* average, int64_t count) {
  const int64_t i = thread_index();
  if (i < count) average[i] += share * (value[i] - average[i]);
}

}  // namespace

void CudaBackend::sgd_update(const SgdProblem& problem, Tensor w, Tensor gradient, Tensor velocity,
                             const float* lr_scale) {
  REQUIRE(!recording_ || problem.learning_rate == now_.learning_rate, "give the state of the step that runs",
          "a learning rate of ", problem.learning_rate, " in a program that is recorded for ", now_.learning_rate);
  const StepState* const state = recording_ ? state_.data<const StepState>() : nullptr;
  OCTET_LAUNCH_EACH(sgd_kernel, w.elements(), threads, stream_, problem, state, lr_scale, w.f32(), gradient.f32(),
                    velocity.f32(), w.elements());
}

void CudaBackend::move_average(float share, Tensor value, Tensor average) {
  OCTET_LAUNCH_EACH(move_average_kernel, average.elements(), threads, stream_, share, value.f32(), average.f32(),
                    average.elements());
}

}  // namespace octet::cuda
