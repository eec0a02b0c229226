// The losses of detection: chunks of anchors or boxes on threads, and the classes of an anchor as vectors.
#include <algorithm>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/detection_loops.h"
#include "kernels/cpu/elements.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/parallel.h"
#include "kernels/shared/losses.h"

namespace octet::cpu {
namespace {
constexpr int64_t logit_tile = 128;  // logits whose terms wait on the stack

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
LossReport sum_chunks(const Threads& threads, int64_t total, const Sum& sum) {
  std::vector<ChunkLoss> chunks(static_cast<size_t>((total + loss_chunk - 1) / loss_chunk));
  parallel_pieces(threads, total, loss_chunk, [&](int64_t first, int64_t count) {
    chunks[static_cast<size_t>(first / loss_chunk)] = sum(first, first + count);
  });
  LossReport report;
  for (const ChunkLoss& chunk : chunks) report.loss_sum += chunk.loss, report.count += chunk.count;
  return report;
}

// Anchors whose terms are computed together: as many as the tile holds, or one that has more classes than that. They
// add their losses to sums, (anchors). gradient: (anchors, classes), or null.
struct AnchorGroup {
  int64_t first, count;  // anchors
  double factors[logit_tile] = {}, sums[logit_tile] = {};
};
template <class Gradient>
void add_terms(const DetectionLoops& loops, const SigmoidLossCall& call, AnchorGroup& group, Gradient* gradient) {
  const SigmoidProblem& p = call.problem;
  const auto terms_of = loops.sigmoid_terms[static_cast<size_t>(focus_of(p.gamma))];
  for (int64_t first = 0; first < p.classes; first += logit_tile) {
    const int64_t width = std::min(logit_tile, p.classes - first);
    const float* const logits = call.logits.f32() + group.first * p.classes + first;
    double loss[logit_tile], slope[logit_tile];
    terms_of(logits, group.count * width, sigmoid_weight(p.alpha, false), static_cast<double>(p.gamma), loss, slope);
    for (int64_t i = 0; i < group.count; ++i) {
      const int64_t label = call.labels[group.first + i], at = i * width, yes = label - 1 - first;
      if (label > 0 && yes >= 0 && yes < width) {
        const LossTerm term = sigmoid_term_of(logits[at + yes], true, p.alpha, p.gamma);
        loss[at + yes] = term.loss, slope[at + yes] = term.slope;
      }
      for (int64_t k = at; k < at + width; ++k) group.sums[i] += loss[k];
      for (int64_t k = 0; gradient != nullptr && k < width; ++k)
        store(gradient + (group.first + i) * p.classes + first + k, label < 0 ? 0.0 : slope[at + k] * group.factors[i]);
    }
  }
}
template <class Gradient>
ChunkLoss anchors_loss(const DetectionLoops& loops, const SigmoidLossCall& call, int64_t begin, int64_t end,
                       Gradient* gradient) {
  const int64_t classes = call.problem.classes, together = std::max<int64_t>(1, logit_tile / classes);
  const int64_t of_image = call.logits.shape.h * call.logits.shape.w * call.problem.anchors;
  ChunkLoss sum;
  for (int64_t first = begin; first < end; first += together) {
    AnchorGroup group{first, std::min(together, end - first)};
    const int32_t* const labels = call.labels + first;
    const auto scale_of = [&](int64_t i) { return static_cast<double>(call.image_scale[(first + i) / of_image]); };
    for (int64_t i = 0; i < group.count; ++i) {
      check_label(first + i, labels[i], classes, "anchor");
      group.factors[i] = scale_of(i) * static_cast<double>(call.gradient_scale);
    }
    if (std::all_of(labels, labels + group.count, [](int32_t label) { return label < 0; })) {
      if (gradient != nullptr) std::fill_n(gradient + first * classes, group.count * classes, Gradient{});
      continue;
    }
    add_terms(loops, call, group, gradient);
    for (int64_t i = 0; i < group.count; ++i) {
      if (labels[i] < 0) continue;
      sum.loss += on_grid(scale_of(i) * group.sums[i]);
      ++sum.count;
    }
  }
  return sum;
}

template <class Gradient>
ChunkLoss boxes_loss(const BoxLossCall& call, int64_t first, int64_t end, Gradient* gradient) {
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
      const double prediction = static_cast<double>(call.predictions.f32()[own + i]);
      const LossTerm term = smooth_l1_term(prediction - static_cast<double>(call.targets.f32()[box * 4 + i]),
                                           static_cast<double>(p.beta));
      loss += term.loss;
      if (gradient != nullptr)
        store(gradient + own + i, term.slope * (scale * static_cast<double>(call.gradient_scale)));
    }
    sum.loss += on_grid(scale * loss);
    ++sum.count;
  }
  return sum;
}
}  // namespace

void CpuBackend::compute(const SigmoidLossCall& call) {
  const DetectionLoops& loops = *kernels_of(options_.isa).detection;
  with_real_type(call.d_logits.dtype, [&]<class Gradient>(Gradient) {
    auto* const gradient = call.d_logits.as<Gradient>();  // null in evaluation
    *call.report =
        sum_chunks(threads_, call.logits.shape.pixels() * call.problem.anchors,
                   [&](int64_t first, int64_t end) { return anchors_loss(loops, call, first, end, gradient); });
  });
}

void CpuBackend::compute(const BoxLossCall& call) {
  with_real_type(call.d_predictions.dtype, [&]<class Gradient>(Gradient) {
    auto* const gradient = call.d_predictions.as<Gradient>();  // null in evaluation
    *call.report = sum_chunks(threads_, call.predictions.shape.pixels() * call.problem.boxes,
                              [&](int64_t first, int64_t end) { return boxes_loss(call, first, end, gradient); });
  });
}

}  // namespace octet::cpu
