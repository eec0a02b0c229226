// The per-channel arithmetic of affine_forward and affine_backward, shared by every backend. Coefficients are computed
// in double and rounded once. The arithmetic of an element is then float multiplication and addition, never fused.
#pragma once
#include <cmath>
#include <limits>

#include "kernels/backend.h"

namespace octet {

// z = a * x + b. Without norm and beta: a = 1 and b = -0, so that z is x bit by bit.
struct AffineCoefficients {
  float a = 1, b = -0.0f;
};

OCTET_BOTH double inverse_deviation(const AffineProblem& problem, Moments moments, int64_t channel) {
  return 1 / std::sqrt(static_cast<double>(moments.variance[channel]) + static_cast<double>(problem.epsilon));
}

OCTET_BOTH AffineCoefficients affine_coefficients(const AffineProblem& problem, Moments moments,
                                                  AffineParameters parameters, int64_t channel) {
  AffineCoefficients result;
  if (parameters.beta != nullptr) result.b = parameters.beta[channel];
  if (!problem.normalize) return result;
  const double deviation =
      std::sqrt(static_cast<double>(moments.variance[channel]) + static_cast<double>(problem.epsilon));
  result.a = static_cast<float>(static_cast<double>(parameters.gamma[channel]) / deviation);
  result.b = parameters.beta[channel] - moments.mean[channel] * result.a;
  return result;
}

// Backward reads x as numbers, which are codes or the values themselves. Their unit gives the values:
// x = offset + scale * number.
struct InputUnit {
  float scale = 1, offset = 0;
};
OCTET_BOTH InputUnit input_unit(const Convolved& x, int64_t channel) {
  return x.codes.data != nullptr ? InputUnit{x.scale[channel], x.offset[channel]} : InputUnit{};
}
// The unit of a channel that is kept as codes. If all values of the channel are equal, or none is finite, the scale and
// all codes are 0.
OCTET_BOTH InputUnit unit_between(float min, float max) {
  const double low = static_cast<double>(min), high = static_cast<double>(max);
  InputUnit unit{static_cast<float>((high - low) / 254), static_cast<float>((high + low) / 2)};
  if (unit.scale < 1e-36f) unit.scale = 0;  // its inverse would be infinite, or 0 where subnormals are 0
  return unit;
}
OCTET_BOTH float inverse_of(InputUnit unit) { return unit.scale > 0 ? 1 / unit.scale : 0.0f; }

// The mean in this unit.
OCTET_BOTH float mean_in_unit(const AffineProblem& problem, Moments moments, int64_t channel, InputUnit unit) {
  return problem.normalize && unit.scale > 0 ? (moments.mean[channel] - unit.offset) / unit.scale : 0.0f;
}

// The sum of dz * (x - mean) / deviation over a channel's pixels, from those of dz and of dz * number.
OCTET_BOTH double normalized_sum(const AffineProblem& problem, Moments moments, int64_t channel, InputUnit unit,
                                 double sum_dz, double sum_dz_number) {
  if (!problem.normalize) return sum_dz_number;
  const double mean = static_cast<double>(mean_in_unit(problem, moments, channel, unit));
  return (sum_dz_number - mean * sum_dz) * inverse_deviation(problem, moments, channel) *
         static_cast<double>(unit.scale);
}

// d loss / d x = A * dz + (B * number + C). With frozen statistics or without a norm, B = C = 0.
struct AffineGradient {
  float A = 1, B = 0, C = 0;
};

// Sums over the channel's pixels in this batch: sum_dz of dz, sum_dz_normalized of dz * (x - mean) / deviation.
OCTET_BOTH AffineGradient affine_gradient(const AffineProblem& problem, Moments moments, AffineParameters parameters,
                                          int64_t channel, double sum_dz, double sum_dz_normalized, InputUnit unit) {
  AffineGradient result;
  if (!problem.normalize) return result;
  const double inverse = inverse_deviation(problem, moments, channel);
  const double A = parameters.gamma[channel] * inverse;
  result.A = static_cast<float>(A);
  if (!problem.batch_statistics) return result;
  const double count = static_cast<double>(problem.shape.pixels());
  const double B = -A * inverse * sum_dz_normalized / count;
  result.B = static_cast<float>(B * unit.scale);
  result.C = static_cast<float>(-A * sum_dz / count - B * (static_cast<double>(moments.mean[channel]) - unit.offset));
  return result;
}

// Bounds of an activation's values.
struct Bounds {
  float low, high;
};
inline Bounds value_bounds(Activation activation) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  return {activation == Activation::none ? -infinity : 0.0f, activation == Activation::relu6 ? 6.0f : infinity};
}

// The gradient passes where 0 < z <= this, see passes().
inline float largest_passing(Activation activation) {
  const Bounds bounds = value_bounds(activation);
  return activation == Activation::relu6 ? std::nextafter(bounds.high, bounds.low) : bounds.high;
}

// NaN stays NaN: the finiteness check of the step must see it.
OCTET_BOTH float activate(Activation activation, float z) {
  if (activation == Activation::none) return z;
  const float positive = 0 > z ? 0.0f : z;
  return activation == Activation::relu6 && 6 < positive ? 6.0f : positive;
}
// Whether the gradient passes at z. It does not pass at the kinks themselves, as in PyTorch.
OCTET_BOTH bool passes(Activation activation, float z) {
  return activation == Activation::none || (z > 0 && (activation == Activation::relu || z < 6));
}

}  // namespace octet
