// Softmax cross-entropy: a block per row. The sums are one thread's, in order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/shared/fixed_point.h"
#include "kernels/shared/math.h"

namespace octet::cuda {
namespace {

constexpr int threads = 128;

struct RowLoss {
  double loss;
  int rank;  // of the label; -1: the row does not count
};

// exponentials: room for (rows, classes).
__global__ void __launch_bounds__(threads)
    softmax_rows(const __grid_constant__ SoftmaxLossCall call, double* exponentials, RowLoss* losses) {
  const int classes = static_cast<int>(call.logits.shape.c);
  __shared__ double largest, sum;
  const int64_t row = blockIdx.x, first = row * classes;
  const int thread = static_cast<int>(threadIdx.x), label = call.labels[row];
  const float* const x = static_cast<const float*>(call.logits.data) + first;
  float* const gradient = call.d_logits.data != nullptr ? static_cast<float*>(call.d_logits.data) + first : nullptr;
  if (label < 0) {
    for (int k = thread; gradient != nullptr && k < classes; k += threads) gradient[k] = 0;
    if (thread == 0) losses[row] = {0, -1};
    return;
  }
  if (thread == 0) {
    float top = x[0];
    for (int k = 1; k < classes; ++k) top = top < x[k] ? x[k] : top;
    largest = static_cast<double>(top);
  }
  __syncthreads();
  double* const powers = exponentials + first;
  for (int k = thread; k < classes; k += threads) powers[k] = exponential(static_cast<double>(x[k]) - largest);
  __syncthreads();
  const double weight = call.weights != nullptr ? static_cast<double>(call.weights[row]) : 1.0;
  const double smooth = static_cast<double>(call.smoothing), share = smooth / static_cast<double>(classes);
  if (thread == 0) {
    double total = 0, below = 0;  // of e^(logit - largest), and of (logit - largest)
    int rank = 0;
    for (int k = 0; k < classes; ++k) {
      total += powers[k];
      below += static_cast<double>(x[k]) - largest;
      rank += outranks(x[k], k, x[label], label) ? 1 : 0;
    }
    sum = total;
    const double loss = natural_log(total) - (1 - smooth) * (static_cast<double>(x[label]) - largest) - share * below;
    losses[row] = {on_grid(weight * loss), rank};
  }
  __syncthreads();
  if (gradient == nullptr) return;
  for (int k = thread; k < classes; k += threads) {
    const double target = share + (k == label ? 1 - smooth : 0.0);
    gradient[k] = static_cast<float>((powers[k] / sum - target) * static_cast<double>(call.gradient_scale) * weight);
  }
}

// One row after another, as the CPU adds.
__global__ void __launch_bounds__(threads) sum_rows(const RowLoss* losses, int64_t rows, LossReport* report) {
  __shared__ RowLoss some[threads];
  LossReport sum;
  for (int64_t first = 0; first < rows; first += threads) {
    const int64_t row = first + threadIdx.x;
    if (row < rows) some[threadIdx.x] = losses[row];
    __syncthreads();
    for (int64_t i = 0; threadIdx.x == 0 && i < threads && first + i < rows; ++i) {
      const RowLoss loss = some[i];
      if (loss.rank < 0) continue;
      sum.loss_sum += loss.loss;
      static_assert(hit_ranks[0] == 1 && hit_ranks[1] == 5);
      sum.hits[0] += loss.rank < 1;
      sum.hits[1] += loss.rank < 5;
      ++sum.count;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *report = sum;
}

}  // namespace

void CudaBackend::compute(const SoftmaxLossCall& call) {
  const int64_t rows = call.logits.shape.n;
  auto* const losses = row_losses_.get<RowLoss>(rows);
  OCTET_LAUNCH(softmax_rows, dim3(static_cast<unsigned>(rows)), dim3(threads), stream_, call,
               sums_.get<double>(call.logits.elements()), losses);
  OCTET_LAUNCH(sum_rows, dim3(1), dim3(threads), stream_, losses, rows, call.report);
}

}  // namespace octet::cuda
