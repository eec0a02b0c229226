// The losses of detection: chunks of anchors or boxes on threads, and the classes of an anchor as vectors.
#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sigmoid_terms.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/losses.h"

namespace octet::cpu {
namespace {
constexpr int64_t tile = 64;  // classes whose terms wait on the stack

template <class Gradient>
void store(Gradient* to, double value) {
  *to = as_stored<Gradient>(static_cast<float>(value));
}

struct ChunkLoss {
  double loss = 0;
  int64_t count = 0;
};
// sum(first, end) -> ChunkLoss, over the chunks of [0, total).
template <class Sum>
LossReport sum_chunks(int threads, int64_t total, const Sum& sum) {
  std::vector<ChunkLoss> chunks(static_cast<size_t>((total + loss_chunk - 1) / loss_chunk));
  parallel_pieces(threads, total, loss_chunk, [&](int64_t first, int64_t count) {
    chunks[static_cast<size_t>(first / loss_chunk)] = sum(first, first + count);
  });
  LossReport report;
  for (const ChunkLoss& chunk : chunks) report.loss_sum += chunk.loss, report.count += chunk.count;
  return report;
}

struct SigmoidCall {
  const SigmoidProblem& problem;
  const SigmoidTerms& terms;
  const float* logits;
  const int32_t* labels;
  const float* image_scale;
  double gradient_scale;
  int64_t of_image;  // anchors
};
// The loss of one anchor that is not ignored. gradient: (classes), or null.
template <class Gradient>
double anchor_loss(const SigmoidCall& call, const float* logits, int64_t label, double factor, Gradient* gradient) {
  const SigmoidProblem& p = call.problem;
  double sum = 0;
  for (int64_t first = 0; first < p.classes; first += tile) {
    const int64_t count = std::min(tile, p.classes - first), yes = label - 1 - first;
    double loss[tile], slope[tile];
    call.terms.of_no[static_cast<size_t>(focus_of(p.gamma))](logits + first, count, sigmoid_weight(p.alpha, false),
                                                             static_cast<double>(p.gamma), loss, slope);
    if (yes >= 0 && yes < count) {
      const LossTerm term = sigmoid_term_of(logits[label - 1], true, p.alpha, p.gamma);
      loss[yes] = term.loss, slope[yes] = term.slope;
    }
    for (int64_t k = 0; k < count; ++k) sum += loss[k];
    for (int64_t k = 0; gradient != nullptr && k < count; ++k) store(gradient + first + k, slope[k] * factor);
  }
  return sum;
}
template <class Gradient>
ChunkLoss anchors_loss(const SigmoidCall& call, int64_t first, int64_t end, Gradient* gradient) {
  const int64_t classes = call.problem.classes;
  ChunkLoss sum;
  for (int64_t anchor = first; anchor < end; ++anchor) {
    Gradient* const own = gradient != nullptr ? gradient + anchor * classes : nullptr;
    const int64_t label = call.labels[anchor];
    check_label(anchor, label, classes, "anchor");
    if (label < 0) {
      if (own != nullptr) std::fill_n(own, classes, Gradient{});
      continue;
    }
    const double scale = static_cast<double>(call.image_scale[anchor / call.of_image]);
    const double loss = anchor_loss(call, call.logits + anchor * classes, label, scale * call.gradient_scale, own);
    sum.loss += on_grid(scale * loss);
    ++sum.count;
  }
  return sum;
}

struct BoxCall {
  const BoxLossProblem& problem;
  const float *predictions, *targets;
  const int32_t* labels;
  const float* scale;
  double gradient_scale;
};
template <class Gradient>
ChunkLoss boxes_loss(const BoxCall& call, int64_t first, int64_t end, Gradient* gradient) {
  const BoxLossProblem& p = call.problem;
  ChunkLoss sum;
  for (int64_t box = first; box < end; ++box) {
    const int64_t label = call.labels[box], row = int64_t{p.choices} * 4;
    check_label(box, label, p.choices > 1 ? p.choices - 1 : INT32_MAX, "box");
    if (gradient != nullptr) std::fill_n(gradient + box * row, row, Gradient{});
    if (label <= 0) continue;
    const int64_t own = box * row + (p.choices > 1 ? label : 0) * 4;
    const double scale = static_cast<double>(call.scale[box / p.boxes / p.rows_per_scale]);
    double loss = 0;
    for (int64_t i = 0; i < 4; ++i) {
      const double prediction = static_cast<double>(call.predictions[own + i]);
      const LossTerm term =
          smooth_l1_term(prediction - static_cast<double>(call.targets[box * 4 + i]), static_cast<double>(p.beta));
      loss += term.loss;
      if (gradient != nullptr) store(gradient + own + i, term.slope * (scale * call.gradient_scale));
    }
    sum.loss += on_grid(scale * loss);
    ++sum.count;
  }
  return sum;
}

// call(pointer to the gradient's elements, or null)
template <class Call>
void with_gradient(Tensor gradient, const Call& call) {
  if (gradient && gradient.dtype == DType::bf16)
    call(gradient.as<uint16_t>());
  else
    call(gradient.f32());
}
}  // namespace

void CpuBackend::sigmoid_loss(const SigmoidProblem& problem, Tensor logits, const int32_t* labels,
                              const float* image_scale, float gradient_scale, Tensor d_logits, LossReport* to) {
  check_sigmoid_loss(problem, logits, d_logits);
  const int64_t of_image = logits.shape.h * logits.shape.w * problem.anchors;
  const SigmoidCall call{problem,     *row_of(options_.isa).sigmoid,       logits.f32(), labels,
                         image_scale, static_cast<double>(gradient_scale), of_image};
  with_gradient(d_logits, [&](auto* gradient) {
    *to = sum_chunks(options_.threads, logits.shape.n * of_image,
                     [&](int64_t first, int64_t end) { return anchors_loss(call, first, end, gradient); });
  });
}

void CpuBackend::box_loss(const BoxLossProblem& problem, Tensor predictions, Tensor targets, const int32_t* labels,
                          const float* scale, float gradient_scale, Tensor d_predictions, LossReport* to) {
  check_box_loss(problem, predictions, targets, d_predictions);
  const BoxCall call{problem, predictions.f32(), targets.f32(), labels, scale, static_cast<double>(gradient_scale)};
  with_gradient(d_predictions, [&](auto* gradient) {
    *to = sum_chunks(options_.threads, predictions.shape.pixels() * problem.boxes,
                     [&](int64_t first, int64_t end) { return boxes_loss(call, first, end, gradient); });
  });
}

}  // namespace octet::cpu
