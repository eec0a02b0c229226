// The losses of detection: a block per chunk of anchors or boxes. Sums are one thread's, in order.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/store.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/losses.h"

namespace octet::cuda {
namespace {

constexpr int threads = static_cast<int>(loss_chunk);

struct ChunkLoss {
  double loss;
  int64_t count;
};
// Adds what the block's threads hold, in order. Thread 0 writes the sum.
__device__ __forceinline__ void sum_block(double loss, bool counts, ChunkLoss* chunk) {
  __shared__ double losses[threads];
  __shared__ bool included[threads];
  losses[threadIdx.x] = loss;
  included[threadIdx.x] = counts;
  __syncthreads();
  if (threadIdx.x != 0) return;
  ChunkLoss sum{0, 0};
  for (int i = 0; i < threads; ++i) {
    if (!included[i]) continue;
    sum.loss += losses[i];
    ++sum.count;
  }
  *chunk = sum;
}
__global__ void __launch_bounds__(threads) sum_chunks(const ChunkLoss* chunks, int64_t count, LossReport* report) {
  __shared__ ChunkLoss some[threads];
  LossReport sum;
  for (int64_t first = 0; first < count; first += threads) {
    if (first + threadIdx.x < count) some[threadIdx.x] = chunks[first + threadIdx.x];
    __syncthreads();
    for (int64_t i = 0; threadIdx.x == 0 && i < threads && first + i < count; ++i) {
      sum.loss_sum += some[i].loss;
      sum.count += some[i].count;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *report = sum;
}

struct Sigmoid {
  const float* logits;
  const int32_t* labels;
  const float* image_scale;
  int64_t anchors, of_image;  // in all; of an image
  int classes;
  float alpha, gamma, gradient_scale;
};

// The terms of some anchors and classes are computed by all threads of a block, so that they read neighbouring logits.
// The sum over an anchor's classes is one thread's.
constexpr int tile_anchors = 32, tile_classes = 32;

template <Focus focus>
__global__ void __launch_bounds__(threads)
    sigmoid_terms(const __grid_constant__ Sigmoid p, const __grid_constant__ RealOutput gradient, ChunkLoss* chunks) {
  __shared__ double terms[tile_anchors][tile_classes + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * threads, own = chunk + thread;
  double sum = 0;  // of the anchor `own`
  for (int part = 0; part < threads; part += tile_anchors) {
    for (int first = 0; first < p.classes; first += tile_classes) {
      const int width = p.classes - first < tile_classes ? p.classes - first : tile_classes;
      for (int i = thread; i < tile_anchors * width; i += threads) {
        const int64_t anchor = chunk + part + i / width;
        const int k = first + i % width, label = anchor < p.anchors ? p.labels[anchor] : -1;
        LossTerm term{0, 0};
        double factor = 0;
        if (label >= 0) {
          term = sigmoid_term<focus>(static_cast<double>(p.logits[anchor * p.classes + k]), k + 1 == label,
                                     sigmoid_weight(p.alpha, k + 1 == label), static_cast<double>(p.gamma));
          factor = static_cast<double>(p.image_scale[anchor / p.of_image]) * static_cast<double>(p.gradient_scale);
        }
        terms[i / width][i % width] = term.loss;
        if (gradient.data != nullptr && anchor < p.anchors)
          write_real(gradient, anchor * p.classes + k, label < 0 ? 0.0f : static_cast<float>(term.slope * factor));
      }
      __syncthreads();
      for (int k = 0; thread / tile_anchors == part / tile_anchors && k < width; ++k)
        sum += terms[thread % tile_anchors][k];
      __syncthreads();
    }
  }
  const bool counts = own < p.anchors && p.labels[own] >= 0;
  const double scale = counts ? static_cast<double>(p.image_scale[own / p.of_image]) : 0.0;
  sum_block(counts ? on_grid(scale * sum) : 0.0, counts, chunks + blockIdx.x);
}

struct Boxes {
  const float *predictions, *targets;
  const int32_t* labels;
  const float* scale;
  int64_t count, per_scale;  // boxes
  int choices;
  float beta, gradient_scale;
};

__global__ void __launch_bounds__(threads)
    box_terms(const __grid_constant__ Boxes p, const __grid_constant__ RealOutput gradient, ChunkLoss* chunks) {
  const int64_t box = thread_index();
  const int label = box < p.count ? p.labels[box] : -1, chosen = p.choices > 1 ? label : 0;
  double loss = 0;
  if (box < p.count) {
    const double scale = label > 0 ? static_cast<double>(p.scale[box / p.per_scale]) : 0.0;
    const double factor = scale * static_cast<double>(p.gradient_scale);
    for (int choice = 0; choice < p.choices; ++choice)
      for (int i = 0; i < 4; ++i) {
        const int64_t at = (box * p.choices + choice) * 4 + i;
        double slope = 0;
        if (label > 0 && choice == chosen) {
          const double difference =
              static_cast<double>(p.predictions[at]) - static_cast<double>(p.targets[box * 4 + i]);
          const LossTerm term = smooth_l1_term(difference, static_cast<double>(p.beta));
          loss += term.loss;
          slope = term.slope * factor;
        }
        if (gradient.data != nullptr) write_real(gradient, at, static_cast<float>(slope));
      }
    loss = on_grid(scale * loss);
  }
  sum_block(loss, label > 0, chunks + blockIdx.x);
}

}  // namespace

void CudaBackend::compute(const SigmoidLossCall& call) {
  const auto& [problem, logits, labels, image_scale, gradient_scale, d_logits, report] = call;
  const int64_t of_image = logits.shape.h * logits.shape.w * problem.anchors;
  const Sigmoid sigmoid{logits.f32(),  labels,          image_scale,   logits.shape.n * of_image,
                        of_image,      problem.classes, problem.alpha, problem.gamma,
                        gradient_scale};
  const unsigned blocks = blocks_for(sigmoid.anchors, threads);
  auto* const chunks = row_losses_.get<ChunkLoss>(blocks);
  switch (focus_of(problem.gamma)) {
    case Focus::none:
      OCTET_LAUNCH((sigmoid_terms<Focus::none>), dim3(blocks), dim3(threads), stream_, sigmoid, real_output({d_logits}),
                   chunks);
      break;
    case Focus::square:
      OCTET_LAUNCH((sigmoid_terms<Focus::square>), dim3(blocks), dim3(threads), stream_, sigmoid,
                   real_output({d_logits}), chunks);
      break;
    case Focus::power:
      OCTET_LAUNCH((sigmoid_terms<Focus::power>), dim3(blocks), dim3(threads), stream_, sigmoid,
                   real_output({d_logits}), chunks);
      break;
  }
  OCTET_LAUNCH(sum_chunks, dim3(1), dim3(threads), stream_, chunks, blocks, report);
}

void CudaBackend::compute(const BoxLossCall& call) {
  const auto& [problem, predictions, targets, labels, scale, gradient_scale, d_predictions, report] = call;
  const Boxes all{predictions.f32(),
                  targets.f32(),
                  labels,
                  scale,
                  predictions.shape.pixels() * problem.boxes,
                  problem.boxes * problem.rows_per_scale,
                  problem.choices,
                  problem.beta,
                  gradient_scale};
  const unsigned blocks = blocks_for(all.count, threads);
  auto* const chunks = row_losses_.get<ChunkLoss>(blocks);
  OCTET_LAUNCH(box_terms, dim3(blocks), dim3(threads), stream_, all, real_output({d_predictions}), chunks);
  OCTET_LAUNCH(sum_chunks, dim3(1), dim3(threads), stream_, chunks, blocks, report);
}

}  // namespace octet::cuda
