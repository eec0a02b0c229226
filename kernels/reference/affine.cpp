// Norm + residual + activation + encode, and its backward.
#include "kernels/shared/affine.h"

#include <algorithm>
#include <vector>

#include "kernels/reference/backend.h"
#include "kernels/reference/element.h"

namespace octet {
namespace {
using namespace reference;

std::vector<AffineCoefficients> coefficients(const AffineProblem& problem, Moments moments,
                                             AffineParameters parameters) {
  std::vector<AffineCoefficients> result(problem.shape.c);
  for (int64_t channel = 0; channel < problem.shape.c; ++channel) {
    result[channel] = affine_coefficients(problem, moments, parameters, channel);
  }
  return result;
}

// at(i) is element i. Writes codes and their scale, or real numbers.
template <class At, class AbsMax>
void encode_all(const Encoding& encoding, const RngKey& key, QTensor to, At at, AbsMax absmax) {
  const int64_t count = to.values.elements();
  if (!encoding.quantized()) {
    for (int64_t i = 0; i < count; ++i) write(to.values, i, at(i));
    return;
  }
  const Encoder encode(encoding, key, clip_of(encoding, absmax));
  for (int64_t i = 0; i < count; ++i) write_code(to.values, i, encode(at(i), i));
  *to.scale = encode.scale();
}

// In the order of the elements, the first of eight in the lowest bit.
void write_bit(Tensor mask, int64_t i, bool value) {
  uint8_t& byte = mask.u8()[i / 8];
  const int bit = static_cast<int>(i % 8);
  byte = static_cast<uint8_t>((byte & ~(1 << bit)) | static_cast<int>(value) << bit);
}
}  // namespace

void ReferenceBackend::compute(const AffineForwardCall& call) {
  const AffineProblem& problem = call.problem;
  const int64_t channels = problem.shape.c;
  const auto affine = coefficients(problem, call.moments, call.parameters);
  const auto z = [&](int64_t channel, float from) { return affine[channel].a * from + affine[channel].b; };
  const auto result = [&](int64_t i) {
    const float sum = z(i % channels, read(call.x.real, i));
    return activate(problem.activation, call.residual ? sum + value(call.residual, i) : sum);
  };
  for (int64_t i = 0; call.mask && i < problem.shape.elements(); ++i) {
    const float sum = z(i % channels, read(call.x.real, i));
    write_bit(call.mask, i, passes(problem.activation, call.residual ? sum + value(call.residual, i) : sum));
  }
  for (int64_t i = 0; call.x.codes && i < call.x.codes.elements(); ++i) {
    const int64_t channel = i % channels;
    const InputUnit unit = unit_between(call.moments.min[channel], call.moments.max[channel]);
    write_code(call.x.codes, i, encode_nearest(read(call.x.real, i) - unit.offset, inverse_of(unit), -127, 127));
    call.x.scale[channel] = unit.scale;
    call.x.offset[channel] = unit.offset;
  }
  // Without a residual, y is monotonic in x within a channel: the extremes of x give those of y.
  const bool from_moments = !call.residual && call.moments.min != nullptr && call.moments.max != nullptr;
  const auto largest = [&] {
    if (!from_moments) return absmax_of(call.y.values.elements(), result);
    const auto extreme = [&](const float* of_x) {
      return absmax_of(channels, [&](int64_t i) { return activate(problem.activation, z(i, of_x[i])); });
    };
    return std::max(extreme(call.moments.min), extreme(call.moments.max));
  };
  encode_all(call.encoding, call.key, call.y, result, largest);
  if (call.probe.largest != nullptr) *call.probe.largest = std::max(*call.probe.largest, largest());
  const bool held = call.encoding.quantized() && call.encoding.range == Range::held;
  for (int64_t i = 0; held && i < call.y.values.elements(); ++i)
    count_saturated(call.probe, result(i), *call.encoding.held);
}

void ReferenceBackend::compute(const AffineBackwardCall& call) {
  const AffineProblem& problem = call.problem;
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  const auto number = [&](int64_t i) { return read(call.x.codes ? call.x.codes : call.x.real, i); };

  const auto dz = [&](int64_t i) {
    return !call.mask || read_bit(call.mask, i) ? read(call.dy, i) : 0.0f;
  };

  std::vector<double> sum_dz(channels), sum_dz_normalized(channels);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t channel = i % channels;
    const double gradient = dz(i);
    sum_dz[channel] += gradient;
    if (problem.normalize) {
      const float mean = mean_in_unit(problem, call.moments, channel, input_unit(call.x, channel));
      sum_dz_normalized[channel] += gradient * (static_cast<double>(number(i)) - mean);
    }
  }
  std::vector<AffineGradient> gradient(channels);
  for (int64_t channel = 0; channel < channels; ++channel) {
    const InputUnit unit = input_unit(call.x, channel);
    if (problem.normalize) sum_dz_normalized[channel] *= inverse_deviation(problem, call.moments, channel) * unit.scale;
    gradient[channel] = affine_gradient(problem, call.moments, call.parameters, channel, sum_dz[channel],
                                        sum_dz_normalized[channel], unit);
  }
  const bool through_statistics = problem.normalize && problem.batch_statistics;
  const auto raw_error = [&](int64_t i) {
    const AffineGradient& own = gradient[i % channels];
    return through_statistics ? own.A * dz(i) + (own.B * number(i) + own.C) : own.A * dz(i);
  };

  for (int64_t i = 0; i < count; ++i) count_histogram(call.probe, i, raw_error(i));
  if (!call.grad_output) return;

  for (int64_t channel = 0; channel < channels; ++channel) {
    if (call.d_gamma) write(call.d_gamma, channel, static_cast<float>(sum_dz_normalized[channel]));
    if (call.d_beta) write(call.d_beta, channel, static_cast<float>(sum_dz[channel]));
  }
  encode_all(
      call.encoding, call.key, call.grad_output,
      [&](int64_t i) {
        const float from = raw_error(i);  // before d_residual, which may lie where dy does
        if (call.encoding.quantized() && call.encoding.range == Range::held)
          count_saturated(call.probe, from, *call.encoding.held);
        if (call.d_residual) write(call.d_residual, i, dz(i));
        return from;
      },
      [&] { return absmax_of(count, raw_error); });
}

}  // namespace octet
