// What a backend computes: the problems, and the calls of Backend with their arguments. Shapes are NHWC. Weights are
// (output, kernel height, kernel width, input / groups), "OHWI".
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "kernels/base/tensor.h"
#include "kernels/shared/pixels.h"
#include "kernels/shared/random.h"

namespace octet {

enum class Rounding : uint8_t { nearest, stochastic };
enum class Range : uint8_t {
  absmax,  // clip = max |x| of this tensor, now
  held,    // clip = *held > 0, chosen by the caller; larger values saturate and are counted
};

// How a value is stored. Encodings are all that the fused kernels see of a policy.
struct Encoding {
  DType dtype = DType::f32;  // s8 or u8: codes; f32 or bf16: real values, for which the members below mean nothing
  int qmax = 127;            // the largest code, for 2 to 8 bits: 2^(bits-1) - 1 (s8) or 2^bits - 1 (u8)
  Rounding rounding = Rounding::nearest;
  Range range = Range::absmax;
  const float* held = nullptr;
  bool quantized() const { return !is_real(dtype); }
  int lowest() const { return dtype == DType::u8 ? 0 : -qmax; }
};

// What a pass reports about the values that it encodes. Each pointer may be null.
struct Probe {
  // (histogram_bins) counts of |x| are added, see shared/encode.h. Not by affine_forward.
  uint32_t* histogram = nullptr;
  uint64_t* saturated = nullptr;  // the number of elements with |x| > clip is added
  // The histogram counts about one of every `sample` blocks of the tensor, see counted() in shared/encode.h.
  int sample = 1;
  // Raised to max |x|, without NaN. By affine_forward, and by quantize if it rounds to nearest.
  float* largest = nullptr;
};

struct ConvProblem {
  Shape x, y;  // input and output; x.c % groups == 0, y.c % groups == 0
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int pad_h = 0, pad_w = 0;  // zeros before the image; behind it there are end_padding(), at most one more
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;
  Shape weight() const { return {y.c, kernel_h, kernel_w, x.c / groups}; }
  int64_t products() const { return y.elements() * kernel_h * kernel_w * (x.c / groups); }  // multiply-adds of one pass
};
// The output extent of a convolution or pool along one axis (floor mode, as PyTorch); 0 where the kernel does not fit.
inline int64_t output_extent(int64_t in, int kernel, int stride, int pad, int dilation = 1) {
  const int64_t room = in + 2 * pad - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}
// The zeros behind an axis: as many as before it, or more if the last of `out` outputs reads more.
inline int64_t end_padding(int64_t in, int64_t out, int kernel, int stride, int pad, int dilation = 1) {
  return std::max<int64_t>(pad, (out - 1) * stride + int64_t{kernel - 1} * dilation + 1 - in - pad);
}

// TensorFlow's "SAME" padding of one axis. If the number of zeros is odd, the one more is behind the image.
struct Padded {
  int64_t out;  // ceil(in / stride)
  int pad;      // zeros before the image
};
inline Padded same_padding(int64_t in, int kernel, int stride, int dilation = 1) {
  const int64_t out = (in + stride - 1) / stride;
  const int64_t zeros = (out - 1) * stride + int64_t{kernel - 1} * dilation + 1 - in;
  return {out, static_cast<int>(std::max<int64_t>(0, zeros) / 2)};
}

// Statistics of each channel of a convolution's output, (C) floats each. variance is divided by count, not count - 1.
struct Moments {
  float *mean = nullptr, *variance = nullptr, *min = nullptr, *max = nullptr;
  explicit operator bool() const { return mean != nullptr; }
};

// A convolution's output as operand of an affine step (norm, residual, activation and encoding). If `codes` is set,
// affine_forward() writes codes of x, and affine_backward() reads them in place of the real values:
// x = offset + scale * code. scale and offset are (C) floats each. A channel's minimum and maximum (see Moments) have
// the codes -127 and 127.
struct Convolved {
  Tensor real;  // f32 or bf16
  Tensor codes;
  float *scale = nullptr, *offset = nullptr;
  Convolved(std::convertible_to<Tensor> auto&& real_values) : real(real_values) {}
  Convolved(Tensor real_values, Tensor kept_codes, float* scales, float* offsets)
      : real(real_values), codes(kept_codes), scale(scales), offset(offsets) {}
};

enum class Activation : uint8_t { none, relu, relu6 };

// With a norm, z = gamma * (x - mean) / sqrt(variance + epsilon) + beta.
// Without a norm (normalize = false), z = x + beta, or z = x if beta is null.
// Then y = encode(activation(z + residual)).
struct AffineProblem {
  Shape shape;
  bool normalize = true;
  bool batch_statistics = true;  // backward differentiates through mean and variance (false: frozen norm)
  float epsilon = 1e-5f;
  Activation activation = Activation::none;
};
struct AffineParameters {
  const float *gamma = nullptr, *beta = nullptr;  // (C) each; gamma is null when !normalize
};

enum class PoolKind : uint8_t {
  max,
  average,
  repeat,  // the reverse: each pixel becomes kernel x kernel equal ones; stride and pad mean nothing
};
struct PoolProblem {
  Shape x = {}, y = {};
  int kernel = 2, stride = 2, pad = 0;
  PoolKind kind = PoolKind::max;
  bool count_padding = false;  // the average counts zeros outside the image too (PyTorch's count_include_pad)
  bool rectify = false;        // the maximum is at least 0; with a kernel of 1 this is a ReLU
};
// The output that belongs to the problem's x; an extent is 0 where the kernel does not fit.
inline Shape pooled_shape(const PoolProblem& p) {
  if (p.kind == PoolKind::repeat) return {p.x.n, p.x.h * p.kernel, p.x.w * p.kernel, p.x.c};
  return {p.x.n, output_extent(p.x.h, p.kernel, p.stride, p.pad), output_extent(p.x.w, p.kernel, p.stride, p.pad),
          p.x.c};
}

// Pools of regions of interest (RoIs): boxes on the input, of which a map shows scaled ones.
enum class RoiKind : uint8_t {
  align,               // RoIAlign of "Mask R-CNN" (ICCV 2017): the mean of bilinear samples
  max,                 // RoIPool of "Fast R-CNN" (ICCV 2015): the largest value
  position_sensitive,  // PSRoIPool of "R-FCN" (NIPS 2016): the mean, of channels that belong to the bin alone
};
struct RoiProblem {
  RoiKind kind = RoiKind::align;
  std::vector<Shape> levels;  // the maps, (N, H, W, C) each; at most max_levels
  std::vector<float> scales;  // pixels of a map for one of the input: 1/4, 1/8, ...
  // (N * rois, bins, bins, C). If position sensitive, a map has bins * bins * C channels, those of one bin side by
  // side.
  Shape y;
  int64_t rois = 512;    // of an image
  int sampling = 2;      // align: samples of a bin along an axis; 0: one for each pixel of the map that the bin covers
  bool aligned = false;  // align: pixel centers lie at halves; else at integers, and a region has at least one pixel
  static constexpr size_t max_levels = 8;
};
// A row of the table of regions, (N * rois, 1, 1, 8) f32: a box in pixels of the input, the index of its level, and
// whether there is a region at all. Where there is none, outputs are 0 and gradients are not read.
struct RoiRow {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  float level = 0, valid = 0;
  float unused[2] = {};
};

inline constexpr int hit_ranks[] = {1, 5};
struct LossReport {
  double loss_sum = 0;  // over the batch, not averaged
  int64_t count = 0;    // of what the loss compares: samples, anchors or boxes
  // Samples whose label is among the hit_ranks[i] largest logits. Of softmax_loss() alone.
  int64_t hits[std::size(hit_ranks)] = {};
};

// Losses of detection. What a loss compares is ignored if its label is -1, is background if it is 0, and else shows
// class label - 1.
struct SigmoidProblem {
  int anchors = 3, classes = 1;  // of a pixel; of an anchor
  // Focal loss (equation (5) of "Focal Loss for Dense Object Detection", ICCV 2017): each term is multiplied by
  // alpha (1 - p)^gamma, where p is the probability of the right answer; by 1 - alpha where this is "no". With a
  // negative alpha this factor is 1. Then gamma 0 is binary cross-entropy.
  float alpha = -1, gamma = 0;
};
struct BoxLossProblem {
  // A row of predictions holds boxes * choices * 4 numbers: several anchors of a pixel with one choice each, or one
  // region with a choice for each class, of which its label is the index.
  int boxes = 1, choices = 1;
  int64_t rows_per_scale = 1;  // rows that share one element of `scale`: H * W, or 1
  // The loss of a difference d is d^2 / (2 beta) below beta, and |d| - beta / 2 above.
  float beta = 0;
};

// quantize(): from (f32 or bf16) -> to (codes). Writes the scale clip / qmax to *to.scale. If the encoding is f32,
// copies `from`. Range::held with *held == 0 is an error of the caller.
struct QuantizeCall {
  Tensor from;
  Encoding encoding;
  RngKey key;
  QTensor to;
  Probe probe = {};
};

// What a norm computes once for each channel from the moments of a convolution's output. Where these are finished, a
// backend may compute it, too.
struct NormCoefficients {
  AffineProblem problem;
  AffineParameters parameters;
  int64_t made = 0;  // the backend's count of those it has made, which it keeps until it makes others; 0: not made
};

// Convolution. Both operands are codes, or both are f32. Sums of codes are exact. In forward and the data gradient they
// are int32, so they may have at most products_per_sum() products. The weight gradient may have more, and adds its
// int32 sums in int64. Sums of f32 have a deterministic order. y (f32 or bf16) = conv(x, w). x and y hold one or more
// groups of images that follow each other.
struct ConvForwardCall {
  ConvProblem problem;  // of one group
  QTensor x, w;
  Tensor y;
  std::span<const Moments> moments = {};     // of each group, of the values before rounding to bf16; or none
  NormCoefficients* coefficients = nullptr;  // of the norm of y with these moments; only with one group
  int64_t groups() const { return x.values.shape.n / problem.x.n; }
  ConvForwardCall group(int64_t i) const {  // alone
    const int64_t images = problem.x.n, first = i * images;
    return {problem,
            x.images(first, images),
            w,
            y.images(first, images),
            moments.empty() ? moments : moments.subspan(static_cast<size_t>(i), 1),
            coefficients};
  }
};
// How an integer network rounds the sums of a convolution, see docs/integer-network.md. With s = the int32 sum plus the
// bias of its channel, and r = the code of the residual or 0:
//   code = clamp(round(s * factor + r * residual_factor), lowest, highest),  ties to even,
// where nothing but round() rounds: a factor has at most 22 significant bits, |s| is below 2^31, and with a residual
// both factors are multiples of 2^-44 times its channel's common power of two, so that doubles hold all terms.
struct Requantization {
  const int32_t* bias = nullptr;            // (C)
  const double* factor = nullptr;           // (C)
  const double* residual_factor = nullptr;  // (C); null without a residual
  int lowest = -127, highest = 127;         // codes of y
};
// y = codes of a convolution of codes, without a step in real numbers. With an f32 output y = f32(s * factor).
struct ConvRequantizeCall {
  ConvProblem problem;
  Tensor x, w;           // codes, w of s8
  Tensor residual = {};  // codes of y's shape, or empty
  Requantization how;
  Tensor y;  // codes or f32
};
// What the backward pass of a norm sums over the gradient of its output: dz and dz x, see shared/sums.h and
// AffineBackwardCall. Where that gradient is finished, a backend may sum it on the way, and then writes what follows
// from the sums: d_gamma, d_beta, and coefficients that it keeps until affine_backward() takes them.
struct NormSums {
  // As affine_backward() gets them. x is no codes, and the norm has the statistics of the batch.
  AffineProblem problem;
  Tensor x;
  Moments moments;
  AffineParameters parameters;
  Tensor mask = {};
  Into d_gamma = {}, d_beta = {};
  int64_t made = 0;  // the backend's count of those it has made; 0: not made
};
// dx (f32 or bf16) (+)= transposed convolution of dy. (+)= adds if Into::add is true.
struct ConvBackwardDataCall {
  ConvProblem problem;
  QTensor dy, w;
  Into dx;
  NormSums* sums = nullptr;  // of the norm whose output is x; only where this call finishes dx
};
// dw (f32, OHWI) (+)= the sum over all pixels. x and dy are codes or real f32.
struct ConvBackwardWeightCall {
  ConvProblem problem;
  QTensor x, dy;
  Into dw;
};

// The first layer on images of bytes, in integers (shared/pixels.h): y (f32 or bf16) = conv(x, w).
struct PixelForwardCall {
  ConvProblem problem;  // of one group; x.c is 3, one group of channels
  PixelScale pixels;
  Tensor x;                                  // (N, H, W, 4) u8
  Tensor w, y;                               // w: f32
  std::span<const Moments> moments = {};     // of each group of images, or none
  NormCoefficients* coefficients = nullptr;  // as ConvForwardCall has them
  int64_t groups() const { return x.shape.n / problem.x.n; }
};
// dw (f32) (+)= the sum over all pixels.
struct PixelBackwardWeightCall {
  ConvProblem problem;
  PixelScale pixels;
  Tensor x;
  Tensor dy;  // f32
  Into dw;
};
// y (f32, (N, H, W, 3)) = x: byte * scale + shift, or 0 where there is no pixel.
struct PixelValuesCall {
  PixelScale pixels;
  Tensor x, y;
};
// Whether the first layer can be computed so.
inline bool takes_pixels(const ConvProblem& p) {
  return p.x.c == 3 && p.groups == 1 && p.kernel_h * p.kernel_w * pixel_channels <= most_pixel_products &&
         p.y.w <= most_pixels_of_a_row;
}

// One bit for each element of a tensor: whether the activation lets the gradient pass there. affine_forward() writes
// the bits in an order of its backend's own, and affine_backward() of the same backend reads them.
inline Shape mask_shape(Shape of) { return {1, 1, 1, (of.elements() + 31) / 32 * 4}; }

// Norm, residual, activation and encoding in one pass. With Range::absmax the clip is exact. Without a residual it
// follows from moments.min and max; with a residual it takes one extra read.
struct AffineForwardCall {
  AffineProblem problem;
  Convolved x;  // f32 or bf16, as conv_forward() wrote it; may have codes for backward
  Moments moments = {};
  AffineParameters parameters = {};
  QTensor residual = {};  // codes, f32, or empty
  Encoding encoding = {};
  RngKey key = {};
  QTensor y;  // codes (writes *y.scale) or f32
  Probe probe = {};
  Tensor mask = {};  // u8 of mask_shape(problem.shape), written for backward; optional, and for an activation only
  const NormCoefficients* coefficients = nullptr;  // of this norm; optional
};
// The backward of that pass. dz = dy where the mask lets the gradient pass, else 0. If grad_output is empty, only the
// probe's histogram is filled: the first step measures before it quantizes.
struct AffineBackwardCall {
  AffineProblem problem;
  Convolved x;
  Moments moments = {};
  AffineParameters parameters = {};
  Tensor mask = {};  // what an affine_forward() wrote; empty: the gradient passes everywhere
  Tensor dy;
  Into d_gamma = {}, d_beta = {};  // (C) f32 (+)= sums; optional
  Into d_residual = {};            // f32 or bf16 (+)= dz; optional
  Encoding encoding = {};
  RngKey key = {};
  QTensor grad_output = {};        // encode(d loss / d x): codes (stochastic; writes *grad_output.scale) or f32
  Probe probe = {};                // observes the gradient before it is encoded
  const NormSums* sums = nullptr;  // of dy; optional
};

// Pools. y has the scale of x. The maximum of codes is exact, and their average is rounded to nearest. Of equal values
// the first in row order is the maximum. The gradient passes a rectified maximum if it is above 0.
// choices (u8 of y's shape): which pixel of its window, h * kernel + w with the padding, each maximum is, or no_choice
// where no gradient passes. A maximum writes them for backward, if they are given.
inline constexpr uint8_t no_choice = 255;
inline constexpr int most_choices = 15;  // the largest kernel whose pixels have numbers
struct PoolForwardCall {
  PoolProblem problem;
  QTensor x, y;
  Tensor choices = {};
};
struct PoolBackwardCall {
  PoolProblem problem;
  Tensor choices;  // of a maximum; else not read
  Tensor dy;
  Into dx;
};
// y (f32, (N,1,1,C)) = mean over pixels of x's real values.
struct GlobalPoolForwardCall {
  QTensor x;
  Tensor y;
};
struct GlobalPoolBackwardCall {
  Tensor dy;
  Into dx;
};
// Pools of regions. All levels have one type, which y has too. The codes of y have the largest of the levels' scales:
// an average cannot exceed it. The table is as RoiRow says.
struct RoiPoolForwardCall {
  const RoiProblem& problem;
  std::span<const QTensor> levels;
  Tensor table;
  QTensor y;
};
// Writes the gradients of all levels that are not empty. Each element is summed in f32, over regions in order, then
// over rows and columns of bins, and is then rounded or added. The levels' values are read by RoiKind::max alone.
struct RoiPoolBackwardCall {
  const RoiProblem& problem;
  std::span<const QTensor> levels;
  Tensor table, dy;
  std::span<const Into> d_levels;
};
// Concatenation along C. Codes are rounded again to the largest scale of the parts. Real parts are copied.
struct ConcatForwardCall {
  std::span<const QTensor> parts;
  QTensor y;
};
struct ConcatBackwardCall {
  Tensor dy;
  std::span<const Into> parts;
};

// Dropout in training. y = 0 where random_bits16(key, element) < rate * 65536, else x / (1 - rate). Codes that are not
// dropped stay the same, and their scale is divided by 1 - rate. Backward drops the gradient where the same key drops
// the value.
struct DropoutForwardCall {
  QTensor x;
  float rate;
  RngKey key;
  QTensor y;
};
struct DropoutBackwardCall {
  Tensor dy;
  float rate;
  RngKey key;
  Into dx;
};

// Losses. Gradients are multiplied by gradient_scale (1 / global batch), and 0 where nothing is compared; their tensor
// is empty in evaluation. Softmax cross-entropy with label smoothing.
struct SoftmaxLossCall {
  Tensor logits;          // (N,1,1,K) f32
  const int32_t* labels;  // (N) in [0, K), or -1 for a padded sample, which is not counted anywhere
  const float* weights;   // (N) factors of losses and gradients, or null for ones
  float smoothing;
  float gradient_scale;
  Tensor d_logits;  // f32
  LossReport* report;
};
// Gradients of the losses of detection are f32 or bf16.
struct SigmoidLossCall {
  SigmoidProblem problem;
  Tensor logits;             // (N, H, W, anchors * classes) f32
  const int32_t* labels;     // (N, H, W, anchors) in [-1, classes]
  const float* image_scale;  // (N) factors of losses and gradients
  float gradient_scale;
  Tensor d_logits;
  LossReport* report;  // counts anchors that are not ignored
};
// Smooth L1 where labels > 0.
struct BoxLossCall {
  BoxLossProblem problem;
  Tensor predictions;     // rows of f32; the rows are N * H * W
  Tensor targets;         // (rows, boxes, 4) f32
  const int32_t* labels;  // (rows, boxes); below `choices` if there are several
  const float* scale;     // factors of losses and gradients
  float gradient_scale;
  Tensor d_predictions;
  LossReport* report;  // counts boxes that are compared
};

// The operations that check their arguments, each with its call.
#define OCTET_OPERATIONS(X)                         \
  X(quantize, QuantizeCall)                         \
  X(conv_forward, ConvForwardCall)                  \
  X(conv_requantize, ConvRequantizeCall)            \
  X(conv_backward_data, ConvBackwardDataCall)       \
  X(conv_backward_weight, ConvBackwardWeightCall)   \
  X(pixel_values, PixelValuesCall)                  \
  X(pixel_forward, PixelForwardCall)                \
  X(pixel_backward_weight, PixelBackwardWeightCall) \
  X(affine_forward, AffineForwardCall)              \
  X(affine_backward, AffineBackwardCall)            \
  X(pool_forward, PoolForwardCall)                  \
  X(pool_backward, PoolBackwardCall)                \
  X(global_pool_forward, GlobalPoolForwardCall)     \
  X(global_pool_backward, GlobalPoolBackwardCall)   \
  X(roi_pool_forward, RoiPoolForwardCall)           \
  X(roi_pool_backward, RoiPoolBackwardCall)         \
  X(concat_forward, ConcatForwardCall)              \
  X(concat_backward, ConcatBackwardCall)            \
  X(dropout_forward, DropoutForwardCall)            \
  X(dropout_backward, DropoutBackwardCall)          \
  X(softmax_loss, SoftmaxLossCall)                  \
  X(sigmoid_loss, SigmoidLossCall)                  \
  X(box_loss, BoxLossCall)

}  // namespace octet
