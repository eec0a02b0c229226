#include "src/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octet {

double learning_rate(const Config::Train& train, int64_t step, int64_t steps_per_epoch) {
  const double warmup = train.warmup_epochs * double(steps_per_epoch);
  if (double(step) < warmup) return train.lr * std::min(1.0, double(step + 1) / warmup);
  const int64_t epoch = step / steps_per_epoch;
  if (train.schedule == "cosine") {
    const double total = double(train.epochs) * double(steps_per_epoch);
    const double progress = std::clamp((double(step) - warmup) / std::max(1.0, total - warmup), 0.0, 1.0);
    return train.lr * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  if (train.schedule == "step") return train.lr * std::pow(train.gamma, double(epoch / train.step_epochs));
  if (train.schedule == "multi_step") {
    const auto passed = std::count_if(train.milestones.begin(), train.milestones.end(),
                                      [&](int64_t milestone) { return epoch >= milestone; });
    return train.lr * std::pow(train.gamma, double(passed));
  }
  return train.lr;  // constant
}

}  // namespace octet
