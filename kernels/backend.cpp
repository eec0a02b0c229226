// Arguments are checked here, once for all backends.
#include "kernels/backend.h"

namespace octet {
namespace {

void check_unsigned(const Encoding& encoding) {
  REQUIRE(encoding.dtype != DType::u8 || encoding.rounding == Rounding::nearest, "round to nearest",
          "unsigned codes rounded stochastically");
}
void check(const QuantizeCall& call) {
  const auto& [from, encoding, key, to, probe] = call;
  REQUIRE(from.shape == to.values.shape, "give a destination of the source's shape", "quantize() between two shapes");
  REQUIRE(is_real(from.dtype), "give real numbers", "quantize() from codes");
  REQUIRE(encoding.dtype == to.values.dtype && encoding.dtype != DType::bf16 && encoding.quantized() != to.real(),
          "give a destination of the encoding's type, int8 with a scale or f32", "quantize() into ",
          name_of(to.values.dtype), " asks for ", name_of(encoding.dtype));
  check_unsigned(encoding);
}

void check_geometry(const ConvProblem& problem) {
  const Shape x = problem.x, y = problem.y;
  REQUIRE(problem.groups > 0 && x.c % problem.groups == 0 && y.c % problem.groups == 0,
          "choose groups that divide the channels of input and output", "a convolution of ", x.c, " to ", y.c,
          " channels has ", problem.groups, " groups");
  const auto fits = [](int64_t in, int64_t out, int kernel, int stride, int pad, int dilation) {
    const int64_t more = end_padding(in, out, kernel, stride, pad, dilation) - pad;
    return more <= (kernel > 1 ? 1 : 0) && out == output_extent(in + more, kernel, stride, pad, dilation);
  };
  REQUIRE(x.n == y.n && fits(x.h, y.h, problem.kernel_h, problem.stride_h, problem.pad_h, problem.dilation_h) &&
              fits(x.w, y.w, problem.kernel_w, problem.stride_w, problem.pad_w, problem.dilation_w),
          "take the output's extents from output_extent() or same_padding()", "a convolution from ", x.h, "x", x.w,
          " does not give ", y.h, "x", y.w);
}
void check_tensor(const char* what, const QTensor& tensor, Shape shape) {
  REQUIRE(tensor.values.shape == shape, "give tensors of the ConvProblem's shapes", "the convolution's ", what,
          " has another shape than the problem");
  REQUIRE(tensor.real() == is_real(tensor.values.dtype), "give a scale to codes, and to codes alone",
          "the convolution's ", what, " is ", name_of(tensor.values.dtype), tensor.real() ? " without" : " with",
          " a scale");
}
// b: the weight or the gradient of the output.
void check_operands(const QTensor& a, const QTensor& b) {
  REQUIRE(a.real() == b.real(), "quantize both operands or none", "a convolution of codes with real numbers");
  REQUIRE(a.values.dtype != DType::bf16 && b.values.dtype != DType::bf16, "give f32 operands",
          "a convolution of real numbers that are not f32");
  REQUIRE(b.values.dtype != DType::u8, "give s8", "a weight or a gradient of unsigned codes");
}
void check_coefficients(const NormCoefficients* of, int64_t groups, size_t moments) {
  REQUIRE(of == nullptr || (groups == 1 && moments == 1), "give the moments of one group",
          "a norm behind a convolution has ", moments, " moments of ", groups, " groups");
}
void check(const ConvForwardCall& call) {
  const ConvProblem& problem = call.problem;
  check_geometry(problem);
  check_coefficients(call.coefficients, call.groups(), call.moments.size());
  const int64_t images = call.x.values.shape.n;
  REQUIRE(problem.x.n > 0 && images % problem.x.n == 0 &&
              (call.moments.empty() || call.moments.size() == static_cast<size_t>(call.groups())),
          "give whole groups of images, and moments for each group or none", "a convolution of groups of ", problem.x.n,
          " images has ", images, " images and moments for ", call.moments.size(), " groups");
  const auto of_all = [&](Shape shape) { return Shape{images, shape.h, shape.w, shape.c}; };
  check_tensor("input", call.x, of_all(problem.x));
  check_tensor("weight", call.w, problem.weight());
  check_tensor("output", {call.y}, of_all(problem.y));
  check_operands(call.x, call.w);
}
void check(const ConvRequantizeCall& call) {
  const auto& [problem, x, w, residual, how, y] = call;
  check_geometry(problem);
  REQUIRE(x.shape == problem.x && w.shape == problem.weight() && y.shape == problem.y &&
              (!residual || residual.shape == problem.y),
          "give tensors of the ConvProblem's shapes", "an integer convolution's tensors do not fit its problem");
  REQUIRE(
      !is_real(x.dtype) && w.dtype == DType::s8 && y.dtype != DType::bf16 && (!residual || !is_real(residual.dtype)),
      "give codes, and s8 weights", "an integer convolution of ", name_of(x.dtype), " with ", name_of(w.dtype),
      " into ", name_of(y.dtype));
  REQUIRE(how.bias && how.factor && (how.residual_factor != nullptr) == static_cast<bool>(residual),
          "give a bias and a factor for each channel, and residual factors with a residual",
          "an integer convolution does not say how it rounds");
  const int least = y.dtype == DType::u8 ? 0 : -128, most = y.dtype == DType::u8 ? 255 : 127;
  REQUIRE(is_real(y.dtype) ? !residual : how.lowest >= least && how.lowest <= how.highest && how.highest <= most,
          "give bounds that the type of y holds, and no residual to f32", "an integer convolution into ",
          name_of(y.dtype), " is bounded by ", how.lowest, " and ", how.highest);
}
void check_mask(const Tensor& mask, Shape of) {
  REQUIRE(mask.shape == mask_shape(of) && mask.dtype == DType::u8,
          "give a mask the shape of mask_shape() and the type u8", "a mask has another shape or type");
}
// Where a data gradient adds to a part of what is there, or writes a part.
void check_parts(const ConvBackwardDataCall& call) {
  const auto& [tensor, add, mask, even] = call.dx;
  if (!mask && !even) return;
  const ConvProblem& p = call.problem;
  const bool one_tap = p.kernel_h * p.kernel_w == 1 && p.pad_h == 0 && p.pad_w == 0;
  const int stride = add ? 1 : 2;
  REQUIRE(
      !call.dy.real() && p.groups == 1 && p.stride_h == stride && p.stride_w == stride && (add || (one_tap && !mask)),
      "add one of a stride of 1, or write one of a tap with a stride of 2, of codes without groups",
      "this data gradient is not added to a part, nor does it write one");
  if (mask) check_mask(mask, p.x);
}
void check(const ConvBackwardDataCall& call) {
  check_geometry(call.problem);
  check_tensor("output gradient", call.dy, call.problem.y);
  check_tensor("weight", call.w, call.problem.weight());
  check_tensor("input gradient", {call.dx.tensor}, call.problem.x);
  check_operands(call.dy, call.w);
  check_parts(call);
  const NormSums* const sums = call.sums;
  if (sums == nullptr) return;
  REQUIRE(sums->problem.shape == call.problem.x && sums->x.shape == call.problem.x && is_real(sums->x.dtype),
          "give real values of the shape of x", "a data gradient sums for a norm of another shape");
  REQUIRE(sums->problem.normalize && sums->problem.batch_statistics, "give a norm with statistics of the batch",
          "a data gradient sums for a norm that needs no sums");
  if (sums->mask) check_mask(sums->mask, call.problem.x);
}
void check(const ConvBackwardWeightCall& call) {
  check_geometry(call.problem);
  check_tensor("input", call.x, call.problem.x);
  check_tensor("output gradient", call.dy, call.problem.y);
  REQUIRE(call.dw.tensor.shape == call.problem.weight() && call.dw.tensor.dtype == DType::f32,
          "give f32 of the weight's shape", "dw has another shape or type than the problem");
  check_operands(call.x, call.dy);
}
void check_pixels(const ConvProblem& problem, Tensor x, int64_t images) {
  check_geometry(problem);
  REQUIRE(takes_pixels(problem), "convolve f32 values", "a convolution of pixels has ", problem.x.c, " channels, ",
          problem.kernel_h, "x", problem.kernel_w, " taps and rows of ", problem.y.w);
  REQUIRE(x.shape == (Shape{images, problem.x.h, problem.x.w, pixel_channels}) && x.dtype == DType::u8,
          "give u8 of (N, H, W, 4)", "a convolution of pixels has other pixels than its problem");
}
void check(const PixelValuesCall& call) {
  const Shape shape = call.y.shape;
  REQUIRE(shape.c == 3 && call.y.dtype == DType::f32 &&
              call.x.shape == (Shape{shape.n, shape.h, shape.w, pixel_channels}) && call.x.dtype == DType::u8,
          "give u8 of (N, H, W, 4), and f32 of three channels", "pixels have no values in another shape or type");
}
void check(const PixelForwardCall& call) {
  const ConvProblem& problem = call.problem;
  const int64_t images = call.x.shape.n;
  check_pixels(problem, call.x, images);
  check_coefficients(call.coefficients, call.groups(), call.moments.size());
  REQUIRE(problem.x.n > 0 && images % problem.x.n == 0 &&
              (call.moments.empty() || call.moments.size() == static_cast<size_t>(call.groups())),
          "give whole groups of images, and moments for each group or none", "a convolution of groups of ", problem.x.n,
          " images has ", images, " images and moments for ", call.moments.size(), " groups");
  REQUIRE(call.w.shape == problem.weight() && call.w.dtype == DType::f32, "give f32 of the weight's shape",
          "a convolution of pixels has other weights than its problem");
  REQUIRE(call.y.shape == (Shape{images, problem.y.h, problem.y.w, problem.y.c}) && is_real(call.y.dtype),
          "give f32 or bf16 of the output's shape", "a convolution of pixels writes another tensor than its problem");
}
void check(const PixelBackwardWeightCall& call) {
  check_pixels(call.problem, call.x, call.problem.x.n);
  REQUIRE(call.dy.shape == call.problem.y && call.dy.dtype == DType::f32, "give f32 of the output's shape",
          "the gradient of a convolution of pixels has another shape or type than its problem");
  REQUIRE(call.dw.tensor.shape == call.problem.weight() && call.dw.tensor.dtype == DType::f32,
          "give f32 of the weight's shape", "dw has another shape or type than the problem");
}

// What both affine calls have.
template <class Call>
void check_affine(const Call& call) {
  const AffineProblem& problem = call.problem;
  const Tensor& codes = call.x.codes;
  REQUIRE(!codes || (codes.shape == problem.shape && codes.dtype == DType::s8 && call.x.scale && call.x.offset),
          "give codes of the problem's shape with a scale and an offset for each channel",
          "an affine step keeps another tensor than its problem tells");
  REQUIRE(!problem.normalize ||
              (call.moments.mean && call.moments.variance && call.parameters.gamma && call.parameters.beta),
          "give mean, variance, gamma and beta", "a norm lacks its statistics or parameters");
}
// What an affine step writes: codes with one scale, or f32.
void check_encoded(const Encoding& encoding, const QTensor& tensor, Shape shape) {
  check_unsigned(encoding);
  REQUIRE(tensor.values.shape == shape && tensor.values.dtype == encoding.dtype && encoding.dtype != DType::bf16 &&
              tensor.real() != encoding.quantized(),
          "give a tensor of the problem's shape and the encoding's type, f32 or codes with one scale",
          "an affine step writes another tensor than its encoding tells");
}
void check(const AffineForwardCall& call) {
  check_affine(call);
  const Tensor& real = call.x.real;
  REQUIRE(call.probe.histogram == nullptr, "give a probe without a histogram", "affine_forward counts no histogram");
  REQUIRE(real.shape == call.problem.shape && is_real(real.dtype), "give x in the problem's shape, as f32 or bf16",
          "an affine step reads another tensor than its problem tells");
  REQUIRE(!call.x.codes || (call.moments.min && call.moments.max), "give the channels' extremes",
          "an affine step keeps codes of an unknown range");
  const QTensor& residual = call.residual;
  REQUIRE(!residual ||
              (residual.values.shape == call.problem.shape && residual.real() == (residual.values.dtype == DType::f32)),
          "add codes or f32 of the problem's shape", "an affine step's residual has another shape or type");
  if (call.mask) {
    REQUIRE(call.problem.activation != Activation::none, "give no mask", "a step without an activation has a mask");
    check_mask(call.mask, call.problem.shape);
  }
  check_encoded(call.encoding, call.y, call.problem.shape);
}
void check(const AffineBackwardCall& call) {
  check_affine(call);
  const Shape shape = call.problem.shape;
  const Tensor& real = call.x.real;
  REQUIRE(call.x.codes || (real.shape == shape && is_real(real.dtype)),
          "give x in the problem's shape, as f32 or bf16, or its codes",
          "an affine step reads another tensor than its problem tells");
  REQUIRE(call.dy.shape == shape && is_real(call.dy.dtype), "give dy in the problem's shape, as f32 or bf16",
          "an affine step's dy has another shape or type");
  if (call.mask || call.problem.activation != Activation::none) check_mask(call.mask, shape);
  REQUIRE(is_real(call.d_residual.tensor.dtype), "give f32 or bf16", "d_residual is codes");
  for (const Into& sums : {call.d_gamma, call.d_beta})
    REQUIRE(sums.tensor.dtype == DType::f32, "give f32 tensors", "a parameter's gradient is ",
            name_of(sums.tensor.dtype));
  if (call.grad_output) check_encoded(call.encoding, call.grad_output, shape);
}

void check_pool(const PoolProblem& p, Shape x, Shape y) {
  REQUIRE(x == p.x && y == p.y && y == pooled_shape(p), "take the output's shape from pooled_shape()",
          "a pool's tensors do not fit its problem");
  REQUIRE(p.kind == PoolKind::repeat || (p.pad >= 0 && 2 * p.pad <= p.kernel), "pad at most half of the kernel",
          "a pool of ", p.kernel, "x", p.kernel, " with padding ", p.pad, " has windows outside of the image");
  REQUIRE(!p.rectify || p.kind == PoolKind::max, "rectify a maximum", "a pool that is no maximum is to be rectified");
}
void check_choices(const PoolProblem& p, const Tensor& choices) {
  REQUIRE(p.kind == PoolKind::max && choices.shape == p.y && choices.dtype == DType::u8,
          "give a maximum's choices the shape of y and the type u8", "a pool's choices have another shape or type");
  REQUIRE(p.kernel <= most_choices, "choose a smaller kernel", "a maximum of ", p.kernel, "x", p.kernel,
          " pixels, which one byte cannot number");
}
void check(const PoolForwardCall& call) {
  const auto& [problem, x, y, choices] = call;
  check_pool(problem, x.values.shape, y.values.shape);
  REQUIRE(x.real() == y.real() && x.values.dtype == y.values.dtype, "pool into the type of the input", "a pool from ",
          name_of(x.values.dtype), " to ", name_of(y.values.dtype));
  if (choices) check_choices(problem, choices);
}
void check(const PoolBackwardCall& call) {
  check_pool(call.problem, call.dx.tensor.shape, call.dy.shape);
  if (call.problem.kind == PoolKind::max) check_choices(call.problem, call.choices);
  REQUIRE(is_real(call.dy.dtype) && is_real(call.dx.tensor.dtype), "give f32 or bf16", "a pool's gradient is codes");
}
void check(const GlobalPoolForwardCall& call) {
  const Shape from = call.x.values.shape;
  REQUIRE(call.y.shape == (Shape{from.n, 1, 1, from.c}) && call.y.dtype == DType::f32,
          "give an f32 output of (N, 1, 1, C)", "a global pool's output has another shape or type");
}
void check(const GlobalPoolBackwardCall& call) {
  const Shape to = call.dx.tensor.shape;
  REQUIRE(call.dy.shape == (Shape{to.n, 1, 1, to.c}) && is_real(call.dy.dtype) && is_real(call.dx.tensor.dtype),
          "give f32 or bf16 gradients, and a dy of (N, 1, 1, C)", "a global pool's tensors have other shapes or types");
}

void check_roi_pool(const RoiProblem& p, size_t levels, Tensor table, Shape y) {
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
void check(const RoiPoolForwardCall& call) {
  const auto& [problem, levels, table, y] = call;
  check_roi_pool(problem, levels.size(), table, y.values.shape);
  for (size_t i = 0; i < levels.size(); ++i)
    REQUIRE(levels[i].values.shape == problem.levels[i] && levels[i].values.dtype == y.values.dtype &&
                levels[i].real() == y.real(),
            "give maps of the problem's shapes and of the output's type", "level ", i, " has another shape or type");
}
void check(const RoiPoolBackwardCall& call) {
  const auto& [problem, levels, table, dy, d_levels] = call;
  check_roi_pool(problem, d_levels.size(), table, dy.shape);
  REQUIRE(is_real(dy.dtype), "give dy in f32 or bf16", "a pool's gradient is codes");
  REQUIRE(problem.kind != RoiKind::max || levels.size() == d_levels.size(), "give the maps too",
          "the gradient of maxima needs the values");
  for (size_t i = 0; i < d_levels.size(); ++i)
    REQUIRE(!d_levels[i] || (d_levels[i].tensor.shape == problem.levels[i] && is_real(d_levels[i].tensor.dtype)),
            "give f32 or bf16 of the problem's shapes", "the gradient of level ", i, " has another shape or type");
}

void check(const ConcatForwardCall& call) {
  const Tensor& y = call.y.values;
  int64_t channels = 0;
  for (const QTensor& part : call.parts) {
    const Shape shape = part.values.shape;
    REQUIRE(part.real() == call.y.real() && part.values.dtype == y.dtype && shape.n == y.shape.n &&
                shape.h == y.shape.h && shape.w == y.shape.w,
            "concatenate images of one size and one encoding", "a part does not fit the concatenation");
    channels += shape.c;
  }
  REQUIRE(channels == y.shape.c, "give an output of as many channels", "the parts have ", channels,
          " channels, the concatenation ", y.shape.c);
}
void check(const ConcatBackwardCall& call) {
  int64_t channels = 0;
  for (const Into& part : call.parts) {
    REQUIRE(is_real(part.tensor.dtype), "give f32 or bf16", "a part's gradient is codes");
    channels += part.tensor.shape.c;
  }
  REQUIRE(channels == call.dy.shape.c, "give the parts that were concatenated", "the parts have ", channels,
          " channels, the concatenation ", call.dy.shape.c);
}

void check_dropout(Shape x, Shape y, float rate) {
  REQUIRE(x == y && rate >= 0 && rate < 1, "give two tensors of one shape and a rate in [0, 1)",
          "dropout's shapes differ, or its rate ", rate, " is no share");
}
void check(const DropoutForwardCall& call) {
  const auto& [x, rate, key, y] = call;
  check_dropout(x.values.shape, y.values.shape, rate);
  REQUIRE(x.real() == y.real() && x.values.dtype == y.values.dtype, "keep the type of the input", "dropout from ",
          name_of(x.values.dtype), " to ", name_of(y.values.dtype));
}
void check(const DropoutBackwardCall& call) {
  check_dropout(call.dx.tensor.shape, call.dy.shape, call.rate);
  REQUIRE(is_real(call.dx.tensor.dtype), "give f32 or bf16", "dropout's gradient is codes");
}

void check_gradient(Tensor gradient, Shape shape) {
  REQUIRE(!gradient || (gradient.shape == shape && is_real(gradient.dtype)), "give f32 or bf16 of the input's shape",
          "a loss's gradient has another shape or type");
}
void check(const SoftmaxLossCall& call) {
  REQUIRE(call.logits.dtype == DType::f32 && call.d_logits.dtype == DType::f32, "give f32 tensors",
          "a softmax loss of ", name_of(call.logits.dtype), " has a gradient in ", name_of(call.d_logits.dtype));
  check_gradient(call.d_logits, call.logits.shape);
}
void check(const SigmoidLossCall& call) {
  const SigmoidProblem& p = call.problem;
  const Tensor& logits = call.logits;
  REQUIRE(logits.dtype == DType::f32 && logits.shape.c == int64_t{p.anchors} * p.classes,
          "give f32 logits with a channel for each anchor and class", "a loss of ", p.anchors, " anchors and ",
          p.classes, " classes has ", logits.shape.c, " channels");
  check_gradient(call.d_logits, logits.shape);
}
void check(const BoxLossCall& call) {
  const BoxLossProblem& p = call.problem;
  const Tensor &predictions = call.predictions, &targets = call.targets;
  REQUIRE(predictions.dtype == DType::f32 && predictions.shape.c == int64_t{p.boxes} * p.choices * 4,
          "give f32 predictions with four channels for each box and choice", "a loss of ", p.boxes, " boxes and ",
          p.choices, " choices has ", predictions.shape.c, " channels");
  REQUIRE(targets.dtype == DType::f32 && targets.elements() == predictions.shape.pixels() * p.boxes * 4,
          "give four f32 targets for each box", "a box loss has ", targets.elements(), " targets for ",
          predictions.shape.pixels() * p.boxes, " boxes");
  check_gradient(call.d_predictions, predictions.shape);
  REQUIRE(p.rows_per_scale > 0 && p.beta >= 0, "give a positive number of rows and a beta of at least 0",
          "a box loss has beta ", p.beta, " and ", p.rows_per_scale, " rows to a scale");
}

class UploadedConvolution final : public ReadyConvolution {
 public:
  UploadedConvolution(Backend& backend, const ConvRequantizeCall& call) : backend_(backend), call_(call) {
    const auto channels = static_cast<size_t>(call.problem.y.c);
    upload(call_.w.data, call.w.bytes());
    upload(call_.how.bias, channels * sizeof(int32_t));
    upload(call_.how.factor, channels * sizeof(double));
    upload(call_.how.residual_factor, channels * sizeof(double));
  }
  void run(Tensor x, Tensor residual, Tensor y) override {
    call_.x = x, call_.residual = residual, call_.y = y;
    backend_.conv_requantize(call_);
  }

 private:
  template <class T>
  void upload(T*& values, size_t bytes) {
    if (values == nullptr) return;
    buffers_.push_back(backend_.allocate(bytes));
    backend_.to_device(buffers_.back()->data(), values, bytes);
    values = static_cast<T*>(buffers_.back()->data());
  }

  Backend& backend_;
  ConvRequantizeCall call_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace

void Backend::quantize_all(std::span<const QuantizeCall> calls) {
  for (const QuantizeCall& call : calls) check(call);
  compute_all(calls);
}

std::unique_ptr<ReadyConvolution> Backend::make_ready(const ConvRequantizeCall& call) {
  check(call);
  return keep(call);
}
std::unique_ptr<ReadyConvolution> Backend::keep(const ConvRequantizeCall& call) {
  return std::make_unique<UploadedConvolution>(*this, call);
}

#define OCTET_CHECK_AND_COMPUTE(operation, Call) \
  void Backend::operation(const Call& call) { check(call), compute(call); }
OCTET_OPERATIONS(OCTET_CHECK_AND_COMPUTE)

bool Backend::all_finite(Tensor tensor) {
  const auto found = allocate(sizeof(int32_t));
  find_nonfinite(tensor, static_cast<int32_t*>(found->data()));
  int32_t answer = 0;
  to_host(&answer, found->data(), sizeof answer);
  return answer == 0;
}

}  // namespace octet
