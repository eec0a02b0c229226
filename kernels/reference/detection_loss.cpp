// The losses of detection.
#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/checks.h"
#include "kernels/shared/losses.h"

namespace octet {
using namespace reference;

void ReferenceBackend::compute(const SigmoidLossCall& call) {
  const auto& [problem, logits, labels, image_scale, gradient_scale, d_logits, to] = call;
  LossReport report;
  const int64_t of_image = logits.shape.h * logits.shape.w * problem.anchors;
  for (int64_t anchor = 0; anchor < logits.shape.n * of_image; ++anchor) {
    const int64_t label = labels[anchor], first = anchor * problem.classes;
    check_label(anchor, label, problem.classes, "anchor");
    const double scale = image_scale[anchor / of_image], factor = scale * static_cast<double>(gradient_scale);
    double loss = 0;
    for (int64_t k = 0; k < problem.classes; ++k) {
      const LossTerm own = label < 0
                               ? LossTerm{0, 0}
                               : sigmoid_term_of(logits.f32()[first + k], k + 1 == label, problem.alpha, problem.gamma);
      loss += own.loss;
      if (d_logits) write(d_logits, first + k, label < 0 ? 0 : static_cast<float>(own.slope * factor));
    }
    if (label < 0) continue;
    report.loss_sum += on_grid(scale * loss);
    ++report.count;
  }
  *to = report;
}

void ReferenceBackend::compute(const BoxLossCall& call) {
  const auto& [problem, predictions, targets, labels, scale, gradient_scale, d_predictions, to] = call;
  LossReport report;
  for (int64_t i = 0; d_predictions && i < d_predictions.elements(); ++i) write(d_predictions, i, 0);
  for (int64_t box = 0; box < predictions.shape.pixels() * problem.boxes; ++box) {
    const int64_t label = labels[box];
    check_label(box, label, problem.choices > 1 ? problem.choices - 1 : INT32_MAX, "box");
    if (label <= 0) continue;
    const int64_t first = (box * problem.choices + (problem.choices > 1 ? label : 0)) * 4;
    const double own_scale = scale[box / problem.boxes / problem.rows_per_scale];
    const double factor = own_scale * static_cast<double>(gradient_scale);
    double loss = 0;
    for (int64_t i = 0; i < 4; ++i) {
      const double difference = static_cast<double>(predictions.f32()[first + i]) - targets.f32()[box * 4 + i];
      const LossTerm own = smooth_l1_term(difference, problem.beta);
      loss += own.loss;
      if (d_predictions) write(d_predictions, first + i, static_cast<float>(own.slope * factor));
    }
    report.loss_sum += on_grid(own_scale * loss);
    ++report.count;
  }
  *to = report;
}

}  // namespace octet
