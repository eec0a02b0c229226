// Everything that ends in an encoded tensor: quantization, and the affine step with its backward.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/shared/affine.h"
#include "kernels/shared/checks.h"

namespace octet::cuda {

template <class Values>
void CudaBackend::find_ranges(const Values& values, int64_t rows, int64_t row_length, const Encoding& encoding,
                              float* scales, bool measured) {
  REQUIRE(encoding.range != Range::held || encoding.held != nullptr, "give the clip", "a held range without a clip");
  ClipRange* const ranges = ranges_.get<ClipRange>(rows);
  if (!measured && encoding.range != Range::held) {
    launch_clear_ranges(ranges, rows, stream_);
    launch_absmax(values, rows, row_length, ranges, stream_);
  }
  launch_finish_ranges(ranges, rows, encoding.range, encoding.held, encoding.qmax, scales, stream_);
}

template <class Values>
void CudaBackend::encode(const Values& values, int64_t rows, int64_t row_length, const Encoding& encoding,
                         const RngKey& key, void* out, uint64_t* saturated) {
  Sink sink;
  sink.type = encoding.dtype;
  sink.stochastic = encoding.rounding == Rounding::stochastic;
  sink.lowest = encoding.lowest();
  sink.qmax = encoding.qmax;
  if (encoding.quantized()) sink.ranges = ranges_.get<ClipRange>(rows);
  sink.out = out;
  sink.saturated = saturated;
  launch_encode(values, rows, row_length, of_step(key), sink, stream_);
}

void CudaBackend::quantize(Tensor src, const Encoding& encoding, const RngKey& key, QTensor dst, Probe probe) {
  check_quantize(src, encoding, dst);
  const PlainValues values{src.data, src.dtype};
  if (encoding.quantized()) find_ranges(values, 1, src.elements(), encoding, dst.scale);
  if (probe.histogram != nullptr) launch_histogram(values, src.elements(), probe, stream_);
  encode(values, 1, src.elements(), encoding, key, dst.values.data, probe.saturated);
}

void CudaBackend::dequantize(QTensor src, Tensor dst) {
  REQUIRE(src.values.shape == dst.shape, "give a destination of the source's shape", "dequantize() between two shapes");
  REQUIRE(!is_real(src.values.dtype) && !src.real() && dst.dtype == DType::f32, "give codes and an f32 destination",
          "dequantize() from ", name_of(src.values.dtype), " to ", name_of(dst.dtype));
  launch_dequantize(src.values.data, src.values.dtype, dst.elements(), src.scale, dst.f32(), stream_);
}

void CudaBackend::affine_forward(const AffineProblem& problem, Convolved x, Moments moments,
                                 AffineParameters parameters, QTensor residual, const Encoding& encoding,
                                 const RngKey& key, QTensor y) {
  check_affine_forward(problem, x, moments, parameters, residual);
  check_encoded(encoding, y, problem.shape);
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  float* const a = coefficients_.get<float>(3 * channels);
  float *const b = a + channels, *const mean = b + channels;
  launch_affine_coefficients(problem, moments, parameters, nullptr, nullptr, a, b, mean, stream_);
  if (x.codes) {
    launch_units(moments, channels, x.scale, x.offset, stream_);
    launch_keep_codes(x.real.data, x.real.dtype, count, channels, x.scale, x.offset, x.codes.s8(), stream_);
  }
  const auto [low, high] = value_bounds(problem.activation);
  const AffineForwardValues values{x.real.data,
                                   x.real.dtype,
                                   static_cast<int>(channels),
                                   a,
                                   b,
                                   residual.values.data,
                                   residual.values.dtype,
                                   residual.scale,
                                   low,
                                   high};
  if (encoding.quantized()) {
    // Without a residual, y is monotonic in x within a channel: the extremes of x give those of y.
    const bool from_moments = encoding.range != Range::held && !residual && moments.min && moments.max;
    if (from_moments) {
      ClipRange* const range = ranges_.get<ClipRange>(1);
      launch_clear_ranges(range, 1, stream_);
      launch_affine_extremes(problem.activation, channels, a, b, moments, range, stream_);
    }
    find_ranges(values, 1, count, encoding, y.scale, from_moments);
  }
  encode(values, 1, count, encoding, key, y.values.data, nullptr);
}

void CudaBackend::affine_backward(const AffineProblem& problem, Convolved x, Moments moments,
                                  AffineParameters parameters, QTensor residual, Tensor dy, Into d_gamma, Into d_beta,
                                  Into d_residual, const Encoding& encoding, const RngKey& key, QTensor error,
                                  Probe probe) {
  check_affine_backward(problem, x, moments, parameters, residual, dy, d_residual);
  if (error) check_encoded(encoding, error, problem.shape);
  const int64_t channels = problem.shape.c, count = problem.shape.elements();
  float* const a = coefficients_.get<float>(6 * channels);
  float *const b = a + channels, *const mean = b + channels, *const A = mean + channels, *const B = A + channels,
               *const C = B + channels;
  const Tensor input = x.codes ? x.codes : x.real;
  const float *const scale = x.codes ? x.scale : nullptr, *const offset = x.codes ? x.offset : nullptr;
  launch_affine_coefficients(problem, moments, parameters, scale, offset, a, b, mean, stream_);

  const auto [low, high] = value_bounds(problem.activation);
  const bool activated = problem.activation != Activation::none;
  AffineBackwardValues values{.x = input.data,
                              .dy = dy.data,
                              .residual = activated ? residual.values.data : nullptr,
                              .type = input.dtype,
                              .dy_type = dy.dtype,
                              .residual_type = residual.values.dtype,
                              .residual_scale = residual.scale,
                              .channels = static_cast<int>(channels),
                              .activated = activated,
                              .a = a,
                              .b = b,
                              .A = A,
                              .B = B,
                              .C = C,
                              .low = low,
                              .high = high};

  double* sums = nullptr;
  if ((problem.normalize && problem.batch_statistics) || (error && (d_gamma || d_beta))) {
    float* const partial = partial_.get<float>(affine_partial_floats(count, channels));
    const int64_t rows = affine_partial_floats(count, channels);  // more than (chunks, 2, channels) doubles need
    sums = sums_.get<double>(2 * channels + rows);
    launch_affine_reduce(values, mean, count, partial, sums + 2 * channels, sums, stream_);
  }
  launch_affine_gradients(problem, moments, parameters, scale, offset, sums, A, B, C, error ? d_gamma : Into{},
                          error ? d_beta : Into{}, stream_);
  if (error && encoding.quantized()) find_ranges(values, 1, count, encoding, error.scale);
  if (probe.histogram != nullptr) launch_histogram(values, count, probe, stream_);
  if (!error) return;
  if (d_residual) {
    values.d_residual = d_residual.tensor.data;
    values.residual_bf16 = d_residual.tensor.dtype == DType::bf16;
    values.residual_add = d_residual.add;
  }
  encode(values, 1, count, encoding, key, error.values.data, probe.saturated);
}

}  // namespace octet::cuda
