// Norm + residual + activation + encode, and its backward: a reducing pass, and one that writes.
#include "kernels/shared/affine.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/encode_tensor.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {
namespace {

// Writes a channel's value over a whole period, in pair order.
void expand(float* to, int64_t channels, int64_t channel, float value) {
  for (int64_t i = channel; i < affine_period(channels); i += channels) to[coefficient_place(i)] = value;
}

template <class Work>
void for_channels(const Threads& threads, int64_t channels, const Work& work) {
  parallel_pieces(threads, channels, 128, [&](int64_t first, int64_t count) {
    for (int64_t c = first; c < first + count; ++c) work(c);
  });
}

// Rows of sums, which are to be added in their order. A row holds for each channel the sum of dz, then for each that of
// dz x.
struct GroupSums {
  const double* rows = nullptr;
  int64_t count = 0, length = 0;
  double total(int64_t i) const {
    double sum = 0;
    for (int64_t row = 0; row < count; ++row) sum += rows[row * length + i];
    return sum;
  }
};
// In the order of shared/sums.h.
GroupSums reduce(const Threads& threads, Passes::Reduce kernel, const AffineBackward& pass, Shape shape,
                 Scratch& room) {
  constexpr int64_t piece_elements = 16384, columns = 128;  // of a thread's work
  const int64_t channels = shape.c, chunk = norm_pixels * channels, total = shape.elements();
  const int64_t chunks = norm_chunks_of(shape.pixels()), groups = norm_groups_of(shape.pixels());
  const int64_t length = 2 * channels, pieces = (length + columns - 1) / columns;
  const int64_t own_room = Passes::reduce_room * channels, floats = chunks * length + threads.count * own_room;
  double* const of_groups = room.get<double>(static_cast<size_t>(groups * length + (floats + 1) / 2));
  float* const of_chunks = reinterpret_cast<float*>(of_groups + groups * length);
  float* const rooms = of_chunks + chunks * length;
  const int64_t piece = std::max<int64_t>(1, piece_elements / chunk) * chunk;
  parallel_pieces(threads, total, piece, [&](int64_t first, int64_t count) {
    kernel(pass, Span{first, count}, channels, rooms + omp_get_thread_num() * own_room,
           of_chunks + first / chunk * length);
  });
  parallel_for(threads, groups * pieces, [&](int64_t item) {
    const int64_t group = item / pieces, begin = item % pieces * columns, end = std::min(begin + columns, length);
    double* const sums = of_groups + group * length;
    std::fill(sums + begin, sums + end, 0.0);
    for (int64_t row = group * norm_chunks; row < std::min((group + 1) * norm_chunks, chunks); ++row)
      for (int64_t i = begin; i < end; ++i) sums[i] += static_cast<double>(of_chunks[row * length + i]);
  });
  return {of_groups, groups, length};
}

void write_sums(Into into, const double* values) {
  float* const to = into.tensor.f32();
  for (int64_t i = 0; i < into.tensor.elements(); ++i)
    to[i] = into.add ? to[i] + static_cast<float>(values[i]) : static_cast<float>(values[i]);
}

// The largest magnitude of y without a residual. y is monotonic in x within a channel, so the extremes of x give those
// of y.
float largest_of(const std::vector<AffineCoefficients>& affine, Activation activation, Moments moments) {
  float largest = 0;
  for (size_t c = 0; c < affine.size(); ++c)
    for (const float* extreme : {moments.min, moments.max})
      largest = std::max(largest, std::fabs(activate(activation, affine[c].a * extreme[c] + affine[c].b)));
  return largest;
}

// Encodes one span of at most block_elements and counts its saturated values. Few blocks hold any, so a block is
// counted only if its largest magnitude is beyond the clip.
void encode_counting(const Passes::Forward* kernels, const AffineForward& pass, Span span, Target& target) {
  const float before = std::exchange(target.largest, 0.0f);
  kernels[static_cast<int>(Sink::nearest)](pass, span, target);
  if (target.largest > target.clip) {
    alignas(64) float values[block_elements];
    Target real;
    real.out = values;
    kernels[static_cast<int>(Sink::real)](pass, span, real);
    target.saturated +=
        std::count_if(values, values + span.count, [&](float value) { return std::fabs(value) > target.clip; });
  }
  target.largest = std::max(before, target.largest);
}
}  // namespace

void CpuBackend::compute(const AffineForwardCall& call) {
  const AffineProblem& problem = call.problem;
  const int64_t channels = problem.shape.c, period = affine_period(channels), count = problem.shape.elements();
  float* const a = coefficients_.get<float>(static_cast<size_t>(4 * period));
  float *const b = a + period, *const offset = b + period, *const inverse = offset + period;
  std::vector<AffineCoefficients> affine(static_cast<size_t>(channels));
  for_channels(threads_, channels, [&](int64_t c) {
    affine[c] = affine_coefficients(problem, call.moments, call.parameters, c);
    expand(a, channels, c, affine[c].a);
    expand(b, channels, c, affine[c].b);
  });
  const auto [low, high] = value_bounds(problem.activation);
  const Residual kind = !call.residual ? Residual::none : call.residual.real() ? Residual::real : Residual::codes;
  AffineForward pass{.x = call.x.real.data,
                     .a = a,
                     .b = b,
                     .period = period,
                     .residual = call.residual.values.data,
                     .residual_scale = call.residual.real() ? 0 : *call.residual.scale,
                     .residual_bits = kept_bits(call.residual.values.dtype),
                     .low = low,
                     .high = high,
                     .mask_high = largest_passing(problem.activation),
                     .mask = call.mask.u8()};
  if (call.x.codes) {
    for (int64_t c = 0; c < channels; ++c) {
      const InputUnit unit = unit_between(call.moments.min[c], call.moments.max[c]);
      call.x.scale[c] = unit.scale;
      call.x.offset[c] = unit.offset;
    }
    for (int64_t c = 0; c < channels; ++c) {
      expand(offset, channels, c, call.x.offset[c]);
      expand(inverse, channels, c, inverse_of(input_unit(call.x, c)));
    }
    pass.codes = call.x.codes.s8(), pass.offset = offset, pass.inverse = inverse;
  }
  const auto& kernels = passes_.affine_forward[index_of(call.x.real.dtype)][static_cast<int>(kind)];
  const auto kernel = [&](Sink sink, Span span, Target& target) {
    if (sink == Sink::nearest && call.probe.saturated != nullptr) return encode_counting(kernels, pass, span, target);
    kernels[static_cast<int>(sink)](pass, span, target);
  };
  const bool from_moments = !call.residual && call.moments.min != nullptr && call.moments.max != nullptr;
  const auto largest = [&] {
    return from_moments ? largest_of(affine, problem.activation, call.moments) : absmax(threads_, count, kernel);
  };
  float clip = 0;
  if (call.encoding.quantized()) {
    clip = clip_of(call.encoding, largest);
    *call.y.scale = scale_of(clip, call.encoding.qmax);
  }
  Probe probe = call.probe;
  if (from_moments && probe.largest != nullptr) {
    *probe.largest = std::max(*probe.largest, largest());
    probe.largest = nullptr;
  }
  encode_tensor(threads_, count, {passes_, call.encoding, call.key, clip, call.y.values.data}, probe, kernel);
}

namespace {

// The coefficients of one call's passes, in memory for three periods.
struct BackwardStep {
  const AffineBackwardCall& call;
  const AffineProblem& problem = call.problem;
  AffineBackward pass = {};

  BackwardStep(const AffineBackwardCall& step, float* room) : call(step) {
    const int64_t channels = problem.shape.c, period = affine_period(channels);
    pass.x = (call.x.codes ? call.x.codes : call.x.real).data;
    pass.dy = call.dy.data;
    pass.mask = call.mask.u8();
    pass.A = room, pass.B = room + period, pass.C = room + 2 * period;
    pass.period = period;
  }

  // Per channel: from the sums of dz and of dz x, the gradients of beta and gamma, and the coefficients of the gradient
  // of x.
  void expand_gradient(const Threads& threads, const GroupSums& of, double* sum_dz, double* sum_dz_normalized, float* A,
                       float* B, float* C) const {
    const int64_t channels = problem.shape.c;
    for_channels(threads, channels, [&](int64_t c) {
      const InputUnit unit = input_unit(call.x, c);
      sum_dz[c] = of.total(c);
      sum_dz_normalized[c] = normalized_sum(problem, call.moments, c, unit, sum_dz[c], of.total(channels + c));
      const AffineGradient gradient =
          affine_gradient(problem, call.moments, call.parameters, c, sum_dz[c], sum_dz_normalized[c], unit);
      expand(A, channels, c, gradient.A);
      expand(B, channels, c, gradient.B);
      expand(C, channels, c, gradient.C);
    });
  }
};

}  // namespace

void CpuBackend::compute(const AffineBackwardCall& call) {
  const AffineProblem& problem = call.problem;
  const int64_t channels = problem.shape.c, period = affine_period(channels), count = problem.shape.elements();
  float* const room = coefficients_.get<float>(static_cast<size_t>(3 * period));
  BackwardStep step(call, room);
  AffineBackward& pass = step.pass;
  const int x_type = index_of((call.x.codes ? call.x.codes : call.x.real).dtype), dy_type = index_of(call.dy.dtype);
  const int masked = static_cast<bool>(call.mask);

  const bool through_statistics = problem.normalize && problem.batch_statistics;
  std::vector<double> sums(static_cast<size_t>(2 * channels));
  GroupSums groups;
  if (through_statistics || (call.grad_output && (call.d_gamma || call.d_beta)))
    groups = reduce(threads_, passes_.affine_reduce[x_type][dy_type][masked], pass, problem.shape, sums_);
  step.expand_gradient(threads_, groups, sums.data(), sums.data() + channels, room, room + period, room + 2 * period);

  const auto& kernels = passes_.affine_backward[x_type][dy_type][masked];
  const auto kernel = [&](Sink sink, Span span, Target& target) {
    if (sink == Sink::stochastic || sink == Sink::real) return kernels[sink == Sink::real](pass, span, target);
    alignas(64) float values[block_elements];
    Target real;
    real.out = values;
    for (const int64_t end = span.first + span.count; span.first < end; span.first += block_elements) {
      span.count = std::min(block_elements, end - span.first);
      kernels[1](pass, span, real);
      passes_.encode[0][static_cast<int>(sink)](values, Span{0, span.count}, target);
      if (sink == Sink::nearest) target.out = static_cast<int8_t*>(target.out) + span.count;
    }
  };
  float clip = 0;
  if (call.grad_output && call.encoding.quantized()) {
    clip = clip_of(call.encoding, [&] { return absmax(threads_, count, kernel); });
    *call.grad_output.scale = scale_of(clip, call.encoding.qmax);
  }
  if (call.grad_output) {
    pass.d_residual = call.d_residual;
    if (call.d_gamma) write_sums(call.d_gamma, sums.data() + channels);
    if (call.d_beta) write_sums(call.d_beta, sums.data());
  } else if (call.probe.histogram == nullptr) {
    return;
  }
  encode_tensor(threads_, count,
                {passes_, call.encoding, call.key, clip, call.grad_output.values.data, call.probe.sample}, call.probe,
                kernel);
}

}  // namespace octet::cpu
