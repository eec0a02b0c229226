#include "src/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octet {
namespace {

// Powers and cosines are computed by additions and multiplications in a fixed order. C libraries differ in the last bit
// of their results, and a learning rate that differs would change the weights.

// base^exponent, with products in the order of the loop.
double power(double base, int64_t exponent) {
  double product = 1;
  for (int64_t i = 0; i < exponent && product > 0; ++i) product *= base;
  return product;
}

// 1 - base^exponent, with few products for a large exponent.
double less_than_1(double base, int64_t exponent) {
  double product = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) product *= base;
  return 1 - product;
}

// sin(x)^2 for |x| <= pi / 4, by the Taylor series of the sine: the first term left out is below 1e-17.
double squared_sine(double x) {
  double sum = 1;
  for (int n = 8; n > 0; --n) sum = 1 - sum * x * x / (2 * n * (2 * n + 1));
  return x * sum * (x * sum);
}

// (1 + cos(pi x)) / 2 for x in [0, 1]: 1 at 0, 0 at 1, and monotone.
double half_cosine(double x) {
  const double quarter = std::numbers::pi / 2;
  return x < 0.5 ? 1 - squared_sine(quarter * x) : squared_sine(quarter * (1 - x));
}

}  // namespace

double learning_rate(const Config::Train& train, int64_t step, int64_t steps_per_epoch) {
  const double warmup = train.warmup_epochs * double(steps_per_epoch);
  if (double(step) < warmup) return train.lr * std::min(1.0, double(step + 1) / warmup);
  const int64_t epoch = step / steps_per_epoch;
  if (train.schedule == "cosine") {
    const double total = double(train.epochs) * double(steps_per_epoch);
    return train.lr * half_cosine(std::clamp((double(step) - warmup) / std::max(1.0, total - warmup), 0.0, 1.0));
  }
  if (train.schedule == "step") return train.lr * power(train.gamma, epoch / train.step_epochs);
  if (train.schedule == "multi_step") {
    const auto passed = std::count_if(train.milestones.begin(), train.milestones.end(),
                                      [&](int64_t milestone) { return epoch >= milestone; });
    return train.lr * power(train.gamma, passed);
  }
  return train.lr;  // constant
}

AdamWCorrections adamw_corrections(const Config::Train& train, int64_t step) {
  if (train.optimizer != "adamw") return {};
  return {float(less_than_1(train.momentum, step + 1)), float(std::sqrt(less_than_1(train.beta2, step + 1)))};
}

}  // namespace octet
