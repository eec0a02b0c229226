// The terms of the losses of detection, in double. Every backend computes them so.
#pragma once
#include "kernels/shared/fixed_point.h"
#include "kernels/shared/math.h"

namespace octet {

// Losses are added over chunks of so many anchors or boxes, then over the chunks, in order.
inline constexpr int64_t loss_chunk = 256;

struct LossTerm {
  double loss, slope;  // slope: of the loss with respect to the prediction
};

// (1 - p)^gamma: known to the compiler where gamma is 0 or 2, so that a loop needs no power.
enum class Focus : uint8_t { none, square, power };
inline Focus focus_of(float gamma) { return gamma == 0 ? Focus::none : gamma == 2 ? Focus::square : Focus::power; }

// The focal loss of one logit, see SigmoidProblem. With z = x where the answer is yes and -x where it is no:
//   p = 1 / (1 + e^-z),  loss = a (1 - p)^gamma ln(1 + e^-z),  d loss / dz = -a (1 - p)^gamma (gamma p ln(1 + e^-z) + 1
//   - p)
template <Focus focus>
OCTET_BOTH LossTerm sigmoid_term(double x, bool yes, double alpha, double gamma) {
  const double z = yes ? x : -x, below = z < 0 ? -z : 0, above = z < 0 ? 0 : z;
  const double u = decaying_exponential(-(below + above)), soft = log_one_plus(u);  // e^-|z|, ln(1 + e^-|z|)
  const double inverse = 1 / (1 + u), small = u * inverse;
  const double p = z < 0 ? small : inverse, q = z < 0 ? inverse : small;  // q = 1 - p
  const double cross_entropy = below + soft;
  double weight = alpha < 0 ? 1 : yes ? alpha : 1 - alpha;
  if constexpr (focus == Focus::square) weight *= q * q;
  if constexpr (focus == Focus::power) weight *= exponential(-gamma * (above + soft));  // ln q = -(above + soft)
  const double slope = -weight * (gamma * p * cross_entropy + q);
  return {weight * cross_entropy, yes ? slope : -slope};
}

// Smooth L1 of one difference, see BoxLossProblem.
OCTET_BOTH LossTerm smooth_l1_term(double difference, double beta) {
  const double size = difference < 0 ? -difference : difference;
  if (size < beta) return {difference * difference / (2 * beta), difference / beta};
  return {size - beta / 2, difference > 0 ? 1.0 : difference < 0 ? -1.0 : difference};  // 0 at 0, NaN at NaN
}

}  // namespace octet
