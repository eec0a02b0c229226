// The optimizers.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;
constexpr int block_elements = 4 * threads;

struct SgdItem {
  SgdProblem problem;
  float* w;
  const float* gradient;
  float* velocity;
  const float* lr_scale;
  int64_t count;
};
using SgdItems = Table<SgdItem, 48>;

// Of an item's parameter in this step. state: of a recorded program.
template <class Item>
__device__ float rate_of(const Item& item, const StepState* state) {
  const float base = (state != nullptr ? state->learning_rate : item.problem.learning_rate) * item.problem.rate_factor;
  return item.lr_scale != nullptr ? base * *item.lr_scale : base;
}

__global__ void sgd_kernel(const __grid_constant__ SgdItems items, const StepState* state) {
  const SgdItems::Place place(items);
  const SgdItem& own = items.at[place.item];
  const SgdProblem& p = own.problem;
  const float rate = rate_of(own, state);
#pragma unroll
  for (int k = 0; k < block_elements; k += threads) {
    const int64_t i = place.block * block_elements + k + static_cast<int>(threadIdx.x);
    if (i >= own.count) return;
    const float weight = own.w[i], slope = own.gradient[i] + p.decay * weight;
    const float speed = p.momentum * own.velocity[i] + slope;
    own.velocity[i] = speed;
    own.w[i] = weight - rate * (p.nesterov ? slope + p.momentum * speed : speed);
  }
}

struct AdamWItem {
  AdamWProblem problem;
  float* w;
  const float* gradient;
  float *mean, *square;
  const float* lr_scale;
  int64_t count;
};
using AdamWItems = Table<AdamWItem, 36>;

__global__ void adamw_kernel(const __grid_constant__ AdamWItems items, const StepState* state) {
  const AdamWItems::Place place(items);
  const AdamWItem& own = items.at[place.item];
  const AdamWProblem& p = own.problem;
  const AdamWCorrections corrections = state != nullptr ? state->corrections : p.corrections;
  const float rate = rate_of(own, state);
  const float kept = 1 - rate * p.decay, step = rate / corrections.mean;
  const float share = 1 - p.beta1, square_share = 1 - p.beta2;
#pragma unroll
  for (int k = 0; k < block_elements; k += threads) {
    const int64_t i = place.block * block_elements + k + static_cast<int>(threadIdx.x);
    if (i >= own.count) return;
    const float slope = own.gradient[i];
    const float m = own.mean[i] + share * (slope - own.mean[i]);
    const float v = p.beta2 * own.square[i] + square_share * slope * slope;
    own.mean[i] = m, own.square[i] = v;
    own.w[i] = own.w[i] * kept - step * (m / (sqrtf(v) / corrections.root + p.epsilon));
  }
}

__global__ void move_average_kernel(float share, const float* value, float* average, int64_t count) {
  const int64_t i = thread_index();
  if (i < count) average[i] += share * (value[i] - average[i]);
}

}  // namespace

void CudaBackend::sgd_update(std::span<const SgdStep> steps) {
  const StepState* const state = recording_ ? state_.data<const StepState>() : nullptr;
  launch_in_tables<SgdItems>(
      steps,
      [&](const SgdStep& step, SgdItems& items) {
        const auto& [problem, w, gradient, velocity, lr_scale] = step;
        REQUIRE(!recording_ || problem.learning_rate == now_.learning_rate, "give the state of the step that runs",
                "a learning rate of ", problem.learning_rate, " in a program that is recorded for ",
                now_.learning_rate);
        items.add({problem, w.f32(), gradient.f32(), velocity.f32(), lr_scale, w.elements()},
                  blocks_for(w.elements(), block_elements));
      },
      [&](const SgdItems& items) {
        OCTET_LAUNCH(sgd_kernel, dim3(items.blocks), dim3(threads), stream_, items, state);
      });
}

void CudaBackend::adamw_update(std::span<const AdamWStep> steps) {
  const StepState* const state = recording_ ? state_.data<const StepState>() : nullptr;
  launch_in_tables<AdamWItems>(
      steps,
      [&](const AdamWStep& step, AdamWItems& items) {
        const auto& [problem, w, gradient, mean, square, lr_scale] = step;
        REQUIRE(!recording_ ||
                    (problem.learning_rate == now_.learning_rate && problem.corrections.mean == now_.corrections.mean &&
                     problem.corrections.root == now_.corrections.root),
                "give the state of the step that runs", "an update of AdamW differs from the state of its step");
        items.add({problem, w.f32(), gradient.f32(), mean.f32(), square.f32(), lr_scale, w.elements()},
                  blocks_for(w.elements(), block_elements));
      },
      [&](const AdamWItems& items) {
        OCTET_LAUNCH(adamw_kernel, dim3(items.blocks), dim3(threads), stream_, items, state);
      });
}

void CudaBackend::move_average(float share, Tensor value, Tensor average) {
  OCTET_LAUNCH_EACH(move_average_kernel, average.elements(), threads, stream_, share, value.f32(), average.f32(),
                    average.elements());
}

}  // namespace octet::cuda
