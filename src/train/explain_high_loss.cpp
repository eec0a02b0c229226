#include "src/train/explain_high_loss.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>

namespace octet {
namespace {

double loss_in(const Scalars& figures) {
  const auto found = std::ranges::find(figures, "loss", &Scalar::name);
  return found == figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

}  // namespace

void explain_high_loss(const Parameters& parameters, int64_t steps, const Scalars& train, const Scalars& test) {
  constexpr int64_t settled = 50;  // steps: of the initial values, 0.9 to this power is left
  const bool norms = std::ranges::any_of(
      parameters.statistics(), [](const auto& statistic) { return statistic.name.ends_with(".running_var"); });
  if (norms && steps < settled && loss_in(test) > 2 * loss_in(train))
    spdlog::info(
        "the test loss is far above the training loss: a test uses the norms' running means and variances, which "
        "have not settled after {} steps; they begin at 0 and 1",
        steps);
}

}  // namespace octet
