// Norm + residual + activation + encode, and its backward.
#define OCTET_FLUSH_SUBNORMALS  // read and written as zero, as in the CPU's passes; the build adds nvcc's -ftz=true
#include "kernels/cuda/affine.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/encode_tensor.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/sums.h"

namespace octet::cuda {
namespace {

__global__ void keep_codes_kernel(const void* x, DType type, int64_t count, int64_t channels, const float* scale,
                                  const float* offset, int8_t* codes) {
  const int64_t i = thread_index();
  if (i >= count) return;
  const InputUnit unit{scale[i % channels], offset[i % channels]};
  write_code(codes, i, encode_nearest(read_value(x, type, i) - unit.offset, inverse_of(unit), -127, 127));
}

}  // namespace

void CudaBackend::compute(const AffineForwardCall& call) {
  const auto& [problem, x, moments, parameters, residual, encoding, key, y, asked, mask, coefficients] = call;
  Probe probe = asked;
  const int64_t count = problem.shape.elements();
  const int channels = static_cast<int>(problem.shape.c);
  ClipRange* const range = encoding.quantized() ? ranges_.get<ClipRange>(1) : nullptr;
  const TensorEncoder encoder{encoding, y, range, stream_};
  const bool made = coefficients != nullptr && coefficients->made != 0 && coefficients->made == coefficients_made_;
  float* const a = made ? coefficients_.data<float>() : norm_coefficients(channels);
  float* const b = a + channels;
  if (!made) launch_affine_coefficients({problem, moments, parameters}, a, b, stream_);
  if (x.codes) {
    launch_units(moments, channels, x.scale, x.offset, stream_);
    OCTET_LAUNCH_EACH(keep_codes_kernel, count, threads, stream_, x.real.data, x.real.dtype, count, channels, x.scale,
                      x.offset, x.codes.s8());
  }
  const auto [low, high] = value_bounds(problem.activation);
  const AffineForwardValues values{.x = x.real.data,
                                   .type = x.real.dtype,
                                   .channels = channels,
                                   .a = a,
                                   .b = b,
                                   .residual = residual.values.data,
                                   .residual_type = residual.values.dtype,
                                   .residual_scale = residual.scale,
                                   .activation = problem.activation,
                                   .low = low,
                                   .high = high,
                                   .mask = mask.u8()};
  // Without a residual, y is monotonic in x within a channel: the extremes of x give those of y.
  const bool from_moments = !residual && moments.min && moments.max;
  if (from_moments && probe.largest) {
    launch_affine_extremes(problem.activation, channels, a, b, moments, reinterpret_cast<uint32_t*>(probe.largest),
                           stream_);
    probe.largest = nullptr;
  }
  if (encoding.quantized()) {
    if (from_moments && encoding.range != Range::held) {
      fill_zero(range, sizeof *range, stream_);
      launch_affine_extremes(problem.activation, channels, a, b, moments, &range->largest, stream_);
    }
    encoder.find_range(values, count, from_moments);
  }
  encoder.encode(values, count, of_step(key), probe);
}

void CudaBackend::compute(const AffineBackwardCall& call) {
  const auto& [problem, x, moments, parameters, mask, dy, d_gamma, d_beta, d_residual, encoding, key, grad_output,
               probe, made_sums] = call;
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  // A data gradient has summed, and has written what follows.
  const bool made = made_sums != nullptr && made_sums->made != 0 && made_sums->made == norm_sums_made_;
  if (made) norm_sums_wait_ = false;
  float* const A = made ? norm_gradients_.data<float>() : norm_coefficients(channels);
  float *const B = A + channels, *const C = B + channels;
  const Tensor input = x.codes ? x.codes : x.real;
  const ChannelInputs inputs{problem, moments, parameters, x.codes ? x.scale : nullptr, x.codes ? x.offset : nullptr};
  AffineBackwardValues values{.x = input.data,
                              .dy = dy.data,
                              .type = input.dtype,
                              .dy_type = dy.dtype,
                              .channels = static_cast<int>(channels),
                              .mask = mask ? mask.u8() : nullptr,
                              .A = A,
                              .B = B,
                              .C = C,
                              .d_residual = {}};
  const TensorEncoder encoder{encoding, grad_output, encoding.quantized() ? ranges_.get<ClipRange>(1) : nullptr,
                              stream_};
  AffineGradients gradients{inputs, A, B, C};
  if (grad_output) gradients.d_gamma = real_output(d_gamma), gradients.d_beta = real_output(d_beta);
  const bool needs_sums = (problem.normalize && problem.batch_statistics) || (grad_output && (d_gamma || d_beta));
  if (needs_sums && !made) {
    const int64_t pixels = problem.shape.pixels();
    double* const of_groups = sums_.get<double>(norm_groups_of(pixels) * 2 * channels);
    unsigned* const tickets = zeroed<unsigned>(tickets_, blocks_for(channels, 4));
    launch_affine_reduce(values, pixels, of_groups, tickets, gradients, stream_);
  } else if (!needs_sums) {
    launch_affine_gradients(gradients, stream_);
  }
  if (grad_output && encoding.quantized()) encoder.find_range(values, count);
  encoder.count_magnitudes(values, count, probe);
  if (!grad_output) return;
  if (d_residual) values.d_residual = real_output(d_residual);
  encoder.encode(values, count, of_step(key), probe);
}

}  // namespace octet::cuda
