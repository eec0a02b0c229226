// Convolutions: codes without groups go to tensor cores, everything else to the direct kernels.
#include "kernels/cuda/convolution.h"

#include "kernels/cuda/backend.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

bool on_tensor_cores(const ConvProblem& p, const QTensor& a) { return !a.real() && p.groups == 1; }

int taps_of(const ConvProblem& p) { return p.kernel_h * p.kernel_w; }

}  // namespace

void CudaBackend::compute(const ConvForwardCall& call) {
  for (int64_t group = 0; group < call.groups(); ++group) convolve(call.group(group));
}

void CudaBackend::convolve(const ConvForwardCall& call) {
  const auto& [p, x, w, y, moments, coefficients] = call;
  if (x.real() && by_library(ConvPass::forward, p, x.values, w.values, y, false, moments)) return;
  Gather g = forward_gather(p, x.real() && !moments.empty());
  Output output{.scale = x.scale, .weight_scale = w.scale, .to = real_output({y})};
  if (!moments.empty() && x.real())
    output.chunk_moments = chunk_moments_.get<float>(moment_floats(g));
  else if (!moments.empty())
    output.totals = exact_totals(moments[0], p.y.c, coefficients);
  if (on_tensor_cores(p, x)) {
    const int64_t channels = padded_channels(p.x.c);
    const int8_t* const codes = padded_rows(x.values.s8(), p.x.pixels(), p.x.c, from_);
    const int8_t* const weights = padded_rows(w.values.s8(), p.y.c * taps_of(p), p.x.c, weights_);
    launch_on_tensor_cores({&g, 1}, codes, x.values.dtype, weights, taps_of(p) * channels, channels, output);
  } else if (!x.real() && depthwise_fits(g, x.values.data, output)) {
    launch_depthwise_gather(g, x.values.data, x.values.dtype, w.values.s8(), output, stream_);
  } else {
    // Transposed, so that neighbouring threads read neighbouring weights.
    const int64_t outputs = p.y.c, row = w.values.elements() / outputs;
    g.weight_group = g.group_to;
    g.lane_step = 1;
    g.tap_step *= static_cast<int>(outputs);
    g.channel_step = static_cast<int>(outputs);
    const void *weights = nullptr, *from = x.values.data;
    if (w.real()) {
      weights = transposed_weights(w.values.f32(), outputs, row, outputs);
      from = padded_images(p, x.values.f32(), from_);
      read_padded(p, g);
    } else {
      weights = transposed_weights(w.values.s8(), outputs, row, outputs);
    }
    launch_direct_gather(g, from, x.values.dtype, weights, output, stream_);
  }
  if (output.chunk_moments == nullptr) return;
  launch_combine_moments(g, output.chunk_moments, items_.get<double>(4 * item_count(g) * p.y.c), moments[0], stream_);
}

void CudaBackend::compute(const ConvBackwardDataCall& call) {
  const auto& [p, dy, w, dx, sums] = call;
  Output output{dy.scale, w.scale, real_output(dx), dx.mask ? dx.mask.u8() : nullptr};
  if (dy.real() && by_library(ConvPass::backward_data, p, dx.tensor, w.values, dy.values, dx.add, {})) return;
  if (!on_tensor_cores(p, dy)) {
    for (const Gather& phase : backward_gathers(p))
      if (!dy.real() && depthwise_fits(phase, dy.values.data, output))
        launch_depthwise_gather(phase, dy.values.data, dy.values.dtype, w.values.s8(), output, stream_);
      else
        launch_direct_gather(phase, dy.values.data, dy.values.dtype, w.values.data, output, stream_);
    return;
  }
  const int64_t channels = padded_channels(p.y.c);
  const int8_t* const codes = padded_rows(dy.values.s8(), p.y.pixels(), p.y.c, from_);
  const int8_t* const weights = transposed_weights(w.values.s8(), p.y.c, taps_of(p) * p.x.c, channels);
  std::vector<Gather> phases = backward_gathers(p);
  if (dx.even) output.even = {true, Divisor(static_cast<int>(p.x.h * p.x.w)), Divisor(static_cast<int>(p.x.w))};
  if (dx.even && !dx.add) std::erase_if(phases, [](const Gather& g) { return g.h.taps * g.w.taps == 0; });
  if (sums != nullptr && phases.size() == 1) sum_for_norm(*sums, phases.front(), output);
  launch_on_tensor_cores(phases, codes, DType::s8, weights, channels, p.x.c * channels, output);
}

void CudaBackend::sum_for_norm(NormSums& sums, const Gather& g, Output& output) {
  const auto& [problem, x, moments, parameters, mask, d_gamma, d_beta, made] = sums;
  if (x.dtype != DType::bf16 || norm_sums_wait_) return;
  output.norm.x = static_cast<const uint16_t*>(x.data);
  output.norm.mask = mask ? mask.u8() : nullptr;
  if (!sums_for_norms(g, output)) return;
  const int64_t pixels = problem.shape.pixels(), channels = problem.shape.c;
  float* const A = norm_gradients_.get<float>(3 * channels);
  output.norm.of_chunks = norm_sums_.get<float>(norm_chunks_of(pixels) * 2 * channels);
  output.norm.of_groups = sums_.get<double>(norm_groups_of(pixels) * 2 * channels);
  output.norm.tickets = zeroed<unsigned>(tickets_, norm_tickets(g));
  output.norm.gradients = {
      {problem, moments, parameters}, A, A + channels, A + 2 * channels, real_output(d_gamma), real_output(d_beta)};
  sums.made = ++norm_sums_made_;
  norm_sums_wait_ = true;
}

void CudaBackend::launch_on_tensor_cores(std::span<const Gather> gathers, const int8_t* from, DType type,
                                         const int8_t* weights, int64_t lane_bytes, int64_t tap_bytes,
                                         const Output& output) {
  launch_gather_tiles(gathers, from, type, weights, static_cast<int>(lane_bytes), static_cast<int>(tap_bytes), output,
                      device_.processors, stream_);
}

ExactTotals CudaBackend::exact_totals(const Moments& moments, int64_t channels, NormCoefficients* of_norm) {
  ExactTotals::Norm norm;
  if (of_norm != nullptr) {
    float* const a = norm_coefficients(channels);
    norm = {of_norm->problem, of_norm->parameters, a, a + channels};
    of_norm->made = coefficients_made_;
  }
  int64_t* const sums = zeroed<int64_t>(moment_totals_, 4 * channels);
  uint32_t* const extremes = reinterpret_cast<uint32_t*>(sums + 3 * channels);
  return {.sum = sums,
          .low = sums + channels,
          .high = sums + 2 * channels,
          .most = extremes,
          .least = extremes + channels,
          .tickets = zeroed<unsigned>(tickets_, (channels + narrowest_tile - 1) / narrowest_tile),
          .moments = moments,
          .extremes = moments.min != nullptr || moments.max != nullptr,
          .norm = norm};
}

void CudaBackend::compute(const ConvBackwardWeightCall& call) {
  const auto& [p, x, dy, dw] = call;
  if (x.real() && by_library(ConvPass::backward_weight, p, x.values, dw.tensor, dy.values, dw.add, {})) return;
  WeightGather g = weight_gather(p);
  const DType type = x.values.dtype;
  if (on_tensor_cores(p, x)) {
    const WeightSplits splits = tensor_weight_splits(g, device_.processors, products_per_sum(type));
    const int8_t* const inputs = padded_rows(x.values.s8(), p.x.pixels(), p.x.c, from_);
    const int8_t* const gradients = padded_rows(dy.values.s8(), p.y.pixels(), p.y.c, weights_);
    launch_tensor_weight(g, inputs, type, gradients, splits, weight_output(call, splits), stream_);
    return;
  }
  if (!x.real() && depthwise_fits(g, x.values.data, dy.values.data)) {
    const WeightSplits splits = depthwise_weight_splits(g, device_.processors, products_per_sum(type));
    launch_depthwise_weight(g, x.values.data, type, dy.values.data, splits, weight_output(call, splits), stream_);
    return;
  }
  check_weight_gradient(p, type);
  const int64_t count = dw.tensor.elements();
  int32_t* const partial = partial_.get<int32_t>(g.items * count);
  const void* from = x.values.data;
  if (x.real()) {
    from = padded_images(p, x.values.f32(), from_);
    read_padded(p, g);
  }
  launch_direct_weight(g, from, type, dy.values.data, partial, stream_);
  launch_finish_weight(x.real(), partial, g.items, count, x.scale, dy.scale, dw, stream_);
}

WeightOutput CudaBackend::weight_output(const ConvBackwardWeightCall& call, const WeightSplits& splits) {
  const auto& [p, x, dy, dw] = call;
  WeightOutput to{x.scale, dy.scale, dw.tensor.f32(), dw.add, nullptr, nullptr};
  if (splits.parts == 1) return to;
  to.totals = zeroed<int64_t>(totals_, dw.tensor.elements());
  to.tickets = zeroed<unsigned>(tickets_, splits.tiles);
  return to;
}

}  // namespace octet::cuda
