// Softmax cross-entropy: a block per row. The sums are one thread's, in order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/shared/fixed_point.h"
#include "kernels/shared/math.h"

namespace octet::cuda {
namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads)
    softmax_loss(const float* logits, const int32_t* labels, const float* weights, int classes, float smoothing,
                 float gradient_scale, double* exponentials, float* d_logits, RowLoss* losses) {
  __shared__ double largest, sum;
  const int64_t row = blockIdx.x, first = row * classes;
  const int thread = static_cast<int>(threadIdx.x), label = labels[row];
  const float* const x = logits + first;
  float* const gradient = d_logits != nullptr ? d_logits + first : nullptr;
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
  const double weight = weights != nullptr ? static_cast<double>(weights[row]) : 1.0;
  const double smooth = static_cast<double>(smoothing), share = smooth / static_cast<double>(classes);
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
    gradient[k] = static_cast<float>((powers[k] / sum - target) * static_cast<double>(gradient_scale) * weight);
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

void launch_softmax_loss(const float* logits, const int32_t* labels, const float* weights, int64_t rows,
                         int64_t classes, float smoothing, float gradient_scale, double* exponentials, float* d_logits,
                         RowLoss* row_losses, LossReport* report, Stream stream) {
  OCTET_LAUNCH(softmax_loss, dim3(static_cast<unsigned>(rows)), dim3(threads), stream, logits, labels, weights,
               static_cast<int>(classes), smoothing, gradient_scale, exponentials, d_logits, row_losses);
  OCTET_LAUNCH(sum_rows, dim3(1), dim3(threads), stream, row_losses, rows, report);
}

}  // namespace octet::cuda
