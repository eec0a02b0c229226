// The terms of the losses of detection, in double. Every backend computes them so.
#pragma once
#include "kernels/base/error.h"
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
OCTET_BOTH Focus focus_of(float gamma) { return gamma == 0 ? Focus::none : gamma == 2 ? Focus::square : Focus::power; }

// The factor of terms where the answer is yes or no.
OCTET_BOTH double sigmoid_weight(float alpha, bool yes) {
  const double share = static_cast<double>(alpha);
  return alpha < 0 ? 1 : yes ? share : 1 - share;
}
// The focal loss of one logit, see SigmoidProblem. With z = x where the answer is yes and -x where it is no, and the
// weight a:
//   p = 1 / (1 + e^-z),  loss = a (1 - p)^gamma ln(1 + e^-z),
//   d loss / dz = -a (1 - p)^gamma (gamma p ln(1 + e^-z) + 1 - p)
template <Focus focus>
OCTET_BOTH LossTerm sigmoid_term(double x, bool yes, double weight, double gamma) {
  const double z = yes ? x : -x, size = std::fabs(z);
  const double below = 0.5 * (size - z), above = 0.5 * (size + z);       // max(-z, 0) and max(z, 0), exactly
  const double u = decaying_exponential(-size), soft = log_one_plus(u);  // e^-|z|, ln(1 + e^-|z|)
  const double inverse = 1 / (1 + u), small = u * inverse;
  const double p = select_by_sign(z, small, inverse), q = select_by_sign(z, inverse, small);  // q = 1 - p
  const double cross_entropy = below + soft;
  double factor = weight;
  if constexpr (focus == Focus::square) factor *= q * q;
  if constexpr (focus == Focus::power) factor *= exponential(-gamma * (above + soft));  // ln q = -(above + soft)
  const double slope = -factor * (gamma * p * cross_entropy + q);
  return {factor * cross_entropy, yes ? slope : -slope};
}

// The same with the problem's numbers.
OCTET_BOTH LossTerm sigmoid_term_of(float logit, bool yes, float alpha, float gamma) {
  const double x = static_cast<double>(logit), weight = sigmoid_weight(alpha, yes), power = static_cast<double>(gamma);
  if (gamma == 0) return sigmoid_term<Focus::none>(x, yes, weight, power);
  if (gamma == 2) return sigmoid_term<Focus::square>(x, yes, weight, power);
  return sigmoid_term<Focus::power>(x, yes, weight, power);
}

// Smooth L1 of one difference, see BoxLossProblem.
OCTET_BOTH LossTerm smooth_l1_term(double difference, double beta) {
  const double size = difference < 0 ? -difference : difference;
  if (size < beta) return {difference * difference / (2 * beta), difference / beta};
  return {size - beta / 2, difference > 0 ? 1.0 : difference < 0 ? -1.0 : difference};  // 0 at 0, NaN at NaN
}

inline void check_label(int64_t row, int64_t label, int64_t most, const char* of) {
  REQUIRE(label >= -1 && label <= most, "give labels that the loss allows, see kernels/operations.h", of, " ", row,
          " has label ", label, "; the largest is ", most);
}

}  // namespace octet
