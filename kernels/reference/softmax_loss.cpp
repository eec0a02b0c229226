// Softmax cross-entropy and the optimizer.
#include <algorithm>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"
#include "kernels/shared/fixed_point.h"
#include "kernels/shared/math.h"

namespace octet {
using namespace reference;

void ReferenceBackend::compute(const SoftmaxLossCall& call) {
  const auto& [logits, labels, weights, smoothing, gradient_scale, d_logits, to] = call;
  const int64_t classes = logits.shape.c;
  LossReport report;
  std::vector<double> exponentials(classes);
  for (int64_t n = 0; n < logits.shape.n; ++n) {
    const float* row = logits.f32() + n * classes;
    float* gradient = d_logits ? d_logits.f32() + n * classes : nullptr;
    const int64_t label = labels[n];
    REQUIRE(label >= -1 && label < classes, "give labels in [0, classes), or -1 for padding", "sample ", n,
            " has label ", label, " of ", classes, " classes");
    if (label < 0) {
      if (gradient != nullptr) std::fill(gradient, gradient + classes, 0.0f);
      continue;
    }
    const double largest = *std::max_element(row, row + classes);
    double sum = 0, sum_below = 0;  // of e^(logit - largest), and of (logit - largest)
    int64_t rank = 0;
    for (int64_t k = 0; k < classes; ++k) {
      exponentials[k] = exponential(row[k] - largest);
      sum += exponentials[k];
      sum_below += row[k] - largest;
      rank += outranks(row[k], k, row[label], label);
    }
    const double weight = weights != nullptr ? weights[n] : 1;
    const double share = static_cast<double>(smoothing) / static_cast<double>(classes);
    report.loss_sum +=
        on_grid(weight *
                (natural_log(sum) - (1 - static_cast<double>(smoothing)) * (row[label] - largest) - share * sum_below));
    for (size_t i = 0; i < std::size(hit_ranks); ++i) report.hits[i] += rank < hit_ranks[i];
    ++report.count;
    for (int64_t k = 0; gradient != nullptr && k < classes; ++k) {
      const double target = share + (k == label ? 1 - static_cast<double>(smoothing) : 0.0);
      gradient[k] = static_cast<float>((exponentials[k] / sum - target) * gradient_scale * weight);
    }
  }
  *to = report;
}

void ReferenceBackend::sgd_update(const SgdProblem& problem, Tensor w, Tensor gradient, Tensor velocity,
                                  const float* lr_scale) {
  const float rate = lr_scale != nullptr ? problem.rate() * *lr_scale : problem.rate();
  for (int64_t i = 0; i < w.elements(); ++i) {
    float &weight = w.f32()[i], &speed = velocity.f32()[i];
    const float slope = gradient.f32()[i] + problem.decay * weight;
    speed = problem.momentum * speed + slope;
    weight -= rate * (problem.nesterov ? slope + problem.momentum * speed : speed);
  }
}

void ReferenceBackend::move_average(float share, Tensor value, Tensor average) {
  for (int64_t i = 0; i < average.elements(); ++i) average.f32()[i] += share * (value.f32()[i] - average.f32()[i]);
}

}  // namespace octet
