// WAGEUBN (Yang et al., "Training high-performance and large-scale deep neural networks with full 8-bit integers",
// 2019), simulated. Follows the authors' code (github.com/yang-yk/wageubn); Q, C and Shift as in WAGE:
//   weight      C(Q(w, 8), 8)                         activation  Q(a, 8), not clipped
//   norm        mu = Q(mu, 16), sigma = Q(sqrt(var), 16) + 2^-15, Q((x - mu) / sigma, 8), gamma and beta Q(., 8)
//   grad_block, E1   s clip(Q(e / s, 8), -1, 1), s = Shift(max |e|); not for the logits
//   grad_output, E2  s' = s / 128, t = e / s': Q(t, 8) where |t| < 1, else round(t) within +-127; times s'
//                    (a flag bit distinguishes the two cases); e: the gradient
//   update      weights: n = SR(G g / Shift(max |g|)) within +-(G - 1), g = Q(n / (128 S(8)), 15), G = 128, then 32, 8
//               and 2 from 60, 80 and 90 % of the steps on; norms: g = Q(g, 15); g includes the decay
//               v = momentum v + g, w = Q(w - C(Q(lr, 10), 10) v, 24), and v is kept as Q(v, 13)
//               full-precision layers (first and last): plain SGD at that learning rate
// The authors' momentum is 1/4. A learning rate below 1/1024 is 0.
#include <vector>

#include "src/quant/simulated.h"

namespace octet {
namespace {
using namespace simulated;

class WageUbn final : public SimulatedPolicy {
 public:
  explicit WageUbn(const Config::Policy& config)
      : SimulatedPolicy({.name = "wageubn"},
                        {.rounds_grad_block_of_norm = true, .rounds_grad_block_without_norm = true}, config) {
    require_bits(8, 8, 8);
  }

  void round(Role role, Tensor values, const RngKey&) const override {
    if (role == Role::weight) for_each(values, [](float& w, int64_t) { w = clip(grid(w, 8), 8); });
    if (role == Role::activation) for_each(values, [](float& a, int64_t) { a = grid(a, 8); });
    if (role == Role::grad_block) {
      const float scale = shift(absmax(values));
      for_each(values, [=](float& e, int64_t) { e = scale * clamp(grid(e / scale, 8), -1, 1); });
    }
    if (role != Role::grad_output) return;
    const float step = shift(absmax(values)) / 128;
    for_each(values, [=](float& e, int64_t) {
      const float t = e / step;
      e = step * (std::abs(t) < 1 ? grid(t, 8) : clamp(nearest_integer(t), -127, 127));
    });
  }

  void round_norm(const NormOperands& norm) const override {
    const int64_t channels = norm.x.shape.c;
    std::vector<float> sigma(static_cast<size_t>(channels));
    for (int64_t c = 0; c < channels; ++c) {
      norm.mean[c] = grid(norm.mean[c], 16);
      sigma[size_t(c)] = grid(std::sqrt(norm.variance[c]), 16) + power(-15);
      norm.variance[c] = sigma[size_t(c)] * sigma[size_t(c)] - norm.epsilon;  // the norm node adds epsilon
      norm.gamma[c] = grid(norm.gamma[c], 8);
      norm.beta[c] = grid(norm.beta[c], 8);
    }
    float* const x = norm.x.f32();
    for_runs(norm.x.elements(), channels, [=, mean = norm.mean, deviation = sigma.data()](int64_t begin, int64_t end) {
      each(x, begin, end, [=](float& value, int64_t i) {
        const int64_t c = i - begin;
        value = mean[c] + deviation[c] * grid((value - mean[c]) / deviation[c], 8);
      });
    });
  }

  std::optional<SgdStep> update(const UpdateContext& context, Tensor w, Tensor gradient,
                                Tensor velocity) const override {
    const double done = context.progress;
    const float levels = done < 0.6 ? 128 : done < 0.8 ? 32 : done < 0.9 ? 8 : 2;
    const float rate = clip(grid(context.sgd.rate(), 10), 10);
    if (context.full_precision) {
      SgdProblem sgd = context.sgd;
      sgd.learning_rate = rate;
      sgd.rate_factor = 1;
      return SgdStep{sgd, w, gradient, velocity};
    }
    float* const g = gradient.f32();
    float* const v = velocity.f32();
    const float decay = context.sgd.decay, momentum = context.sgd.momentum;
    const auto move = [=](float& value, int64_t i, float step) {
      const float moved = momentum * v[i] + step;
      value = grid(value - rate * moved, 24);
      v[i] = grid(moved, 13);
    };
    if (context.weight) {
      if (decay != 0)
        for_each(w, [=](float& value, int64_t i) { g[i] += decay * value; });  // before shift(), which reads the sum
      const float scale = shift(absmax(gradient));
      for_each_random(w, context.key, [=](float& value, int64_t i, float u) {
        const float n = clamp(floor_of(g[i] / scale * levels + u), 1 - levels, levels - 1);
        move(value, i, grid(n / 16384, 15));
      });
    } else {
      for_each(w, [=](float& value, int64_t i) { move(value, i, grid(g[i] + decay * value, 15)); });
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Policy> make_wageubn(const Config& config) { return std::make_unique<WageUbn>(config.policy); }

}  // namespace octet
