// The optimizer.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"

namespace octet::cuda {
namespace {

constexpr int threads = 256;
constexpr int block_elements = 4 * threads;

// Several parameters in one launch: each has blocks of its own. A kernel's arguments are at most 4 KiB.
struct SgdItem {
  SgdProblem problem;
  int first_block;
  float* w;
  const float* gradient;
  float* velocity;
  const float* lr_scale;
  int64_t count;
};
struct SgdItems {
  static constexpr int most = 48;
  int count = 0, blocks = 0;
  SgdItem at[most];
};
static_assert(sizeof(SgdItems) <= 4000);

__global__ void sgd_kernel(const __grid_constant__ SgdItems items, const StepState* state) {
  const int block = static_cast<int>(blockIdx.x);
  int item = 0;
  while (item + 1 < items.count && items.at[item + 1].first_block <= block) ++item;
  const SgdItem& own = items.at[item];
  const SgdProblem& p = own.problem;
  const float base = (state != nullptr ? state->learning_rate : p.learning_rate) * p.rate_factor;
  const float rate = own.lr_scale != nullptr ? base * *own.lr_scale : base;
  const int64_t first = static_cast<int64_t>(block - own.first_block) * block_elements;
#pragma unroll
  for (int k = 0; k < block_elements; k += threads) {
    const int64_t i = first + k + static_cast<int>(threadIdx.x);
    if (i >= own.count) return;
    const float weight = own.w[i], slope = own.gradient[i] + p.decay * weight;
    const float speed = p.momentum * own.velocity[i] + slope;
    own.velocity[i] = speed;
    own.w[i] = weight - rate * (p.nesterov ? slope + p.momentum * speed : speed);
  }
}

__global__ void move_average_kernel(float share, const float* value, float* average, int64_t count) {
  const int64_t i = thread_index();
  if (i < count) average[i] += share * (value[i] - average[i]);
}

}  // namespace

void CudaBackend::sgd_update(std::span<const SgdStep> steps) {
  const StepState* const state = recording_ ? state_.data<const StepState>() : nullptr;
  SgdItems items;
  const auto launch = [&] {
    if (items.count > 0) OCTET_LAUNCH(sgd_kernel, dim3(items.blocks), dim3(threads), stream_, items, state);
    items.count = items.blocks = 0;
  };
  for (const auto& [problem, w, gradient, velocity, lr_scale] : steps) {
    REQUIRE(!recording_ || problem.learning_rate == now_.learning_rate, "give the state of the step that runs",
            "a learning rate of ", problem.learning_rate, " in a program that is recorded for ", now_.learning_rate);
    items.at[items.count++] = {problem, items.blocks, w.f32(), gradient.f32(), velocity.f32(), lr_scale, w.elements()};
    items.blocks += static_cast<int>(blocks_for(w.elements(), block_elements));
    if (items.count == SgdItems::most) launch();
  }
  launch();
}

void CudaBackend::move_average(float share, Tensor value, Tensor average) {
  OCTET_LAUNCH_EACH(move_average_kernel, average.elements(), threads, stream_, share, value.f32(), average.f32(),
                    average.elements());
}

}  // namespace octet::cuda
