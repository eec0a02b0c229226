// Checks of arguments, shared by all backends.
#pragma once
#include <string_view>

#include "kernels/backend.h"
#include "kernels/shared/sums.h"

namespace octet {

inline void check_affine(const AffineProblem& problem, const Convolved& x, Moments moments,
                         AffineParameters parameters) {
  REQUIRE(!x.codes || (x.codes.shape == problem.shape && x.codes.dtype == DType::s8 && x.scale && x.offset),
          "give codes of the problem's shape with a scale and an offset for each channel",
          "an affine step keeps another tensor than its problem tells");
  REQUIRE(!problem.normalize || (moments.mean && moments.variance && parameters.gamma && parameters.beta),
          "give mean, variance, gamma and beta", "a norm lacks its statistics or parameters");
}

inline void check_residual(const AffineProblem& problem, const QTensor& residual) {
  REQUIRE(
      !residual || (residual.values.shape == problem.shape && residual.real() == (residual.values.dtype == DType::f32)),
      "add codes or f32 of the problem's shape", "an affine step's residual has another shape or type");
}
inline void check_affine_forward(const AffineProblem& problem, const Convolved& x, Moments moments,
                                 AffineParameters parameters, const QTensor& residual, Probe probe) {
  check_affine(problem, x, moments, parameters);
  REQUIRE(probe.histogram == nullptr, "give a probe without a histogram", "affine_forward counts no histogram");
  REQUIRE(x.real.shape == problem.shape && is_real(x.real.dtype), "give x in the problem's shape, as f32 or bf16",
          "an affine step reads another tensor than its problem tells");
  REQUIRE(!x.codes || (moments.min && moments.max), "give the channels' extremes",
          "an affine step keeps codes of an unknown range");
  check_residual(problem, residual);
}
inline void check_affine_backward(const AffineProblem& problem, const Convolved& x, Moments moments,
                                  AffineParameters parameters, const QTensor& residual, Tensor dy, Into d_residual) {
  check_affine(problem, x, moments, parameters);
  REQUIRE(x.codes || (x.real.shape == problem.shape && is_real(x.real.dtype)),
          "give x in the problem's shape, as f32 or bf16, or its codes",
          "an affine step reads another tensor than its problem tells");
  REQUIRE(dy.shape == problem.shape && is_real(dy.dtype), "give dy in the problem's shape, as f32 or bf16",
          "an affine step's dy has another shape or type");
  REQUIRE(!d_residual || is_real(d_residual.tensor.dtype), "give f32 or bf16", "d_residual is codes");
  check_residual(problem, residual);
}

// A weight gradient of codes adds the products of at least one image in int32. Call this check when a network is
// declared: the kernels call it too, but they first run in the middle of a step. A 1x1 convolution of stride 1 without
// padding has no limit.
inline void check_weight_gradient(const ConvProblem& problem, DType x, std::string_view layer = "a convolution") {
  const ConvProblem p = as_pixel_list(problem);
  REQUIRE_USAGE(is_real(x) || p.y.h * p.y.w <= products_per_sum(x), "train on smaller images",
                "the weight gradient of ", layer, " with a ", p.y.h, "x", p.y.w, " output needs int32 sums of ",
                p.y.h * p.y.w, " products; ", products_per_sum(x), " fit");
}

inline void check_unsigned(const Encoding& encoding) {
  REQUIRE(encoding.dtype != DType::u8 || encoding.rounding == Rounding::nearest, "round to nearest",
          "unsigned codes rounded stochastically");
}

// What an affine step writes: codes with one scale, or f32.
inline void check_encoded(const Encoding& encoding, const QTensor& tensor, Shape shape) {
  check_unsigned(encoding);
  REQUIRE(tensor.values.shape == shape && tensor.values.dtype == encoding.dtype && encoding.dtype != DType::bf16 &&
              tensor.real() != encoding.quantized(),
          "give a tensor of the problem's shape and the encoding's type, f32 or codes with one scale",
          "an affine step writes another tensor than its encoding tells");
}

inline void check_pool(const PoolProblem& p, Shape x, Shape y) {
  REQUIRE(x == p.x && y == p.y && y == pooled_shape(p), "take the output's shape from pooled_shape()",
          "a pool's tensors do not fit its problem");
  REQUIRE(p.kind == PoolKind::repeat || (p.pad >= 0 && 2 * p.pad <= p.kernel), "pad at most half of the kernel",
          "a pool of ", p.kernel, "x", p.kernel, " with padding ", p.pad, " has windows outside of the image");
  REQUIRE(!p.rectify || p.kind == PoolKind::max, "rectify a maximum", "a pool that is no maximum is to be rectified");
}
inline void check_pool_forward(const PoolProblem& p, const QTensor& x, const QTensor& y) {
  check_pool(p, x.values.shape, y.values.shape);
  REQUIRE(x.real() == y.real() && x.values.dtype == y.values.dtype, "pool into the type of the input", "a pool from ",
          name_of(x.values.dtype), " to ", name_of(y.values.dtype));
}

inline void check_roi_pool(const RoiProblem& p, size_t levels, Tensor table, Shape y) {
  REQUIRE(levels > 0 && levels <= RoiProblem::max_levels && levels == p.levels.size() && levels == p.scales.size(),
          "give one map and one scale for each level, at most 8", "a pool of regions has ", levels, " maps, ",
          p.levels.size(), " shapes and ", p.scales.size(), " scales");
  const int64_t bins = p.kind == RoiKind::position_sensitive ? y.h * y.w : 1;
  for (const Shape& level : p.levels)
    REQUIRE(level.n == p.levels[0].n && level.c == y.c * bins && level.h < 32768 && level.w < 32768,
            "give levels of the same images and channels, of less than 32768 rows and columns",
            "a pool of regions has a level of ", level.n, "x", level.h, "x", level.w, "x", level.c);
  REQUIRE(y == p.y && y.n == p.levels[0].n * p.rois && p.sampling >= 0, "give an output of (N * rois, bins, bins, C)",
          "a pool of regions has an output of ", y.n, " regions");
  REQUIRE(table.dtype == DType::f32 && table.shape == (Shape{y.n, 1, 1, sizeof(RoiRow) / sizeof(float)}),
          "give a table with a row for each region", "a pool of regions has another table than its problem tells");
}
inline void check_roi_pool_forward(const RoiProblem& p, std::span<const QTensor> levels, Tensor table,
                                   const QTensor& y) {
  check_roi_pool(p, levels.size(), table, y.values.shape);
  for (size_t i = 0; i < levels.size(); ++i)
    REQUIRE(levels[i].values.shape == p.levels[i] && levels[i].values.dtype == y.values.dtype &&
                levels[i].real() == y.real(),
            "give maps of the problem's shapes and of the output's type", "level ", i, " has another shape or type");
}
inline void check_roi_pool_backward(const RoiProblem& p, std::span<const QTensor> levels, Tensor table, Tensor dy,
                                    std::span<const Into> d_levels) {
  check_roi_pool(p, d_levels.size(), table, dy.shape);
  REQUIRE(is_real(dy.dtype), "give dy in f32 or bf16", "a pool's gradient is codes");
  REQUIRE(p.kind != RoiKind::max || levels.size() == d_levels.size(), "give the maps too",
          "the gradient of maxima needs the values");
  for (size_t i = 0; i < d_levels.size(); ++i)
    REQUIRE(!d_levels[i] || (d_levels[i].tensor.shape == p.levels[i] && is_real(d_levels[i].tensor.dtype)),
            "give f32 or bf16 of the problem's shapes", "the gradient of level ", i, " has another shape or type");
}

inline void check_label(int64_t row, int64_t label, int64_t most, const char* of) {
  REQUIRE(label >= -1 && label <= most, "give labels that the loss allows, see kernels/backend.h", of, " ", row,
          " has label ", label, "; the largest is ", most);
}
inline void check_sigmoid_loss(const SigmoidProblem& p, Tensor logits, Tensor d_logits) {
  REQUIRE(logits.dtype == DType::f32 && logits.shape.c == int64_t{p.anchors} * p.classes,
          "give f32 logits with a channel for each anchor and class", "a loss of ", p.anchors, " anchors and ",
          p.classes, " classes has ", logits.shape.c, " channels");
  REQUIRE(!d_logits || (d_logits.shape == logits.shape && is_real(d_logits.dtype)),
          "give f32 or bf16 of the logits' shape", "a loss's gradient has another shape or type");
}
inline void check_box_loss(const BoxLossProblem& p, Tensor predictions, Tensor targets, Tensor d_predictions) {
  REQUIRE(predictions.dtype == DType::f32 && predictions.shape.c == int64_t{p.boxes} * p.choices * 4,
          "give f32 predictions with four channels for each box and choice", "a loss of ", p.boxes, " boxes and ",
          p.choices, " choices has ", predictions.shape.c, " channels");
  REQUIRE(targets.dtype == DType::f32 && targets.elements() == predictions.shape.pixels() * p.boxes * 4,
          "give four f32 targets for each box", "a box loss has ", targets.elements(), " targets for ",
          predictions.shape.pixels() * p.boxes, " boxes");
  REQUIRE(!d_predictions || (d_predictions.shape == predictions.shape && is_real(d_predictions.dtype)),
          "give f32 or bf16 of the predictions' shape", "a loss's gradient has another shape or type");
  REQUIRE(p.rows_per_scale > 0 && p.beta >= 0, "give a positive number of rows and a beta of at least 0",
          "a box loss has beta ", p.beta, " and ", p.rows_per_scale, " rows to a scale");
}

inline void check_dropout(Shape x, Shape y, float rate) {
  REQUIRE(x == y && rate >= 0 && rate < 1, "give two tensors of one shape and a rate in [0, 1)",
          "dropout's shapes differ, or its rate ", rate, " is no share");
}
inline void check_dropout_forward(const QTensor& x, float rate, const QTensor& y) {
  check_dropout(x.values.shape, y.values.shape, rate);
  REQUIRE(x.real() == y.real() && x.values.dtype == y.values.dtype, "keep the type of the input", "dropout from ",
          name_of(x.values.dtype), " to ", name_of(y.values.dtype));
}

inline void check_quantize(Tensor source, const Encoding& encoding, const QTensor& to) {
  REQUIRE(source.shape == to.values.shape, "give a destination of the source's shape", "quantize() between two shapes");
  REQUIRE(is_real(source.dtype), "give real numbers", "quantize() from codes");
  REQUIRE(encoding.dtype == to.values.dtype && encoding.dtype != DType::bf16 && encoding.quantized() != to.real(),
          "give a destination of the encoding's type, int8 with a scale or f32", "quantize() into ",
          name_of(to.values.dtype), " asks for ", name_of(encoding.dtype));
  check_unsigned(encoding);
}

}  // namespace octet
