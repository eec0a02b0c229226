// Everything that a device must be able to do. ReferenceBackend consists of plain loops, and tests compare the other
// backends with it. CpuBackend overrides the operations that take time. Shapes are NHWC. Weights are (output, kernel
// height, kernel width, input / groups), "OHWI". Calls never allocate what the caller could have planned. A backend's
// own scratch memory grows on first use, and scratch_bytes() gives its size.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/tensor.h"
#include "kernels/shared/random.h"
#include "kernels/side_stream.h"

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

// The values that differ from step to step. A device that repeats a recorded program reads them in each step.
struct StepState {
  uint32_t step = 0;          // of every RngKey
  float learning_rate = 0;    // of every SgdProblem
  uint64_t first_sample = 0;  // of this rank in the global batch, see RngKey
};

struct SgdProblem {
  float learning_rate = 0.1f, momentum = 0.9f, decay = 0;
  bool nesterov = false;
  float rate_factor = 1;  // of the learning rate, for this parameter
  float rate() const { return learning_rate * rate_factor; }
};

// Work of the host in the device's order. The tensors are in the host's memory; a tensor of both lists is in one place.
// The work writes all elements of `writes`. It must not throw or call the backend: a device that repeats a recorded
// program calls it for each repetition, from a thread of its own. What it refers to lives until forget_programs().
using HostWork =
    std::function<void(std::span<const Tensor> reads, std::span<const Tensor> writes, const StepState& now)>;

// Memory of a device, freed with this object. It is aligned to at least 64 bytes and uses huge pages where they help.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
};

// Copies data to the device while the device computes.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual void begin(const void* from) = 0;  // `from` may change after the call
  virtual void finish(void* to) = 0;         // calls of the backend after this one find the data at `to`, on the device
};

struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu"
  virtual std::string isa() const = 0;   // "avx512_vnni"
  // A note for the log: which library computes, or that one is missing. Empty: there is nothing to note.
  virtual std::string note() const { return {}; }
  // Memory of the device, zeroed. All pointers given to the calls below point into such memory. The host reads and
  // writes this memory by to_host() and to_device(), or directly if host_memory() is true.
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) = 0;
  virtual size_t scratch_bytes() const = 0;
  // Bytes that may still be allocated; SIZE_MAX if the device has no memory of its own.
  virtual size_t free_bytes() const { return SIZE_MAX; }
  virtual bool host_memory() const { return true; }
  // Copies from and to the device's memory, after all earlier calls. to_host() waits until the copy is done.
  virtual void to_host(void* to, const void* from, size_t bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  virtual void to_device(void* to, const void* from, size_t bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  // Waits until all earlier calls are done.
  virtual void synchronize() {}
  // Runs `work`, which calls this backend and must not wait unless it is unrecorded. program: a small number; `work`
  // must make the same calls each time for the same number. A device may record the calls the second time. From then on
  // it repeats the record and does not call `work`. What differs between steps then comes from the state and from the
  // device's memory. Calls of the program `unrecorded` are never recorded, and may differ each time.
  static constexpr int unrecorded = -1;
  virtual void run(int program, const StepState&, const std::function<void()>& work) = 0;
  // Brings `reads` to the host, calls the work, and brings `writes` to the device, after the calls before this one and
  // before those after it. The work gets the state that run() was last given.
  virtual void on_host(std::span<const Tensor> reads, std::span<const Tensor> writes, const HostWork&) = 0;
  // Drops all records, also an unfinished one. The memory that the records use may then be freed.
  virtual void forget_programs() {}
  // Time of each kernel since the start, if the backend waits for every kernel (CudaOptions::check_every_kernel).
  virtual std::vector<KernelTime> kernel_times() const { return {}; }
  // A stream for work in parallel with the backend's own work; null if the host computes.
  virtual std::unique_ptr<SideStream> make_side_stream() { return nullptr; }
  virtual std::unique_ptr<Upload> make_upload(size_t /*bytes*/) { return nullptr; }

  // -- quantization. src (f32 or bf16) -> dst (codes). Writes the scale clip / qmax to *dst.scale. If the encoding is
  // f32, copies src. Range::held with *held == 0 is an error of the caller.
  virtual void quantize(Tensor src, const Encoding&, const RngKey&, QTensor dst, Probe) = 0;
  // dst (f32) = code * scale.
  virtual void dequantize(QTensor src, Tensor dst) = 0;

  // -- convolution. Both operands are codes, or both are f32. Sums of codes are exact. In forward and the data gradient
  // they are int32, so they may have at most products_per_sum() products. The weight gradient may have more, and adds
  // its int32 sums in int64. Sums of f32 have a deterministic order.
  // y (f32 or bf16) = conv(x, w). The moments are optional, and are those of the values before rounding to bf16.
  virtual void conv_forward(const ConvProblem&, QTensor x, QTensor w, Tensor y, Moments) = 0;
  // The same for groups of images that follow each other in x and y. of_group: the problem of one group. moments: those
  // of each group.
  virtual void conv_forward_groups(const ConvProblem& of_group, QTensor x, QTensor w, Tensor y,
                                   std::span<const Moments> moments) {
    const int64_t images = of_group.x.n;
    for (size_t group = 0; group < moments.size(); ++group) {
      const int64_t first = int64_t(group) * images;
      conv_forward(of_group, x.images(first, images), w, y.images(first, images), moments[group]);
    }
  }
  // dx (f32 or bf16) (+)= transposed convolution of dy. (+)= adds if Into::add is true.
  virtual void conv_backward_data(const ConvProblem&, QTensor dy, QTensor w, Into dx) = 0;
  // dw (f32, OHWI) (+)= the sum over all pixels. x and dy are codes or real f32.
  virtual void conv_backward_weight(const ConvProblem&, QTensor x, QTensor dy, Into dw) = 0;

  // -- norm, residual, activation and encoding in one pass, and the backward of that pass.
  // x is f32 or bf16, as conv_forward wrote it, and may have codes for backward. residual: codes, f32, or empty. y:
  // codes (writes *y.scale) or f32. With Range::absmax the clip is exact. Without a residual it follows from
  // moments.min and max; with a residual it takes one extra read.
  virtual void affine_forward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual,
                              const Encoding&, const RngKey&, QTensor y, Probe) = 0;
  // dz = dy where the activation lets the gradient pass, else 0. The activation's input is computed again from x and
  // the residual; without an activation the residual is not read. d_residual (optional, f32 or bf16) (+)= dz. d_gamma
  // and d_beta (optional, f32, (C)) (+)= sums. error = encode(d loss / d x) is codes (stochastic; writes *error.scale)
  // or f32. The probe observes the gradient before it is encoded. If error is empty, only the probe's histogram is
  // filled: the first step measures before it quantizes.
  virtual void affine_backward(const AffineProblem&, Convolved x, Moments, AffineParameters, QTensor residual,
                               Tensor dy, Into d_gamma, Into d_beta, Into d_residual, const Encoding&, const RngKey&,
                               QTensor error, Probe) = 0;
  // running = (1 - momentum) * running + momentum * batch; the variance is corrected by count / (count - 1).
  virtual void update_running(Moments, int64_t count, float momentum, Tensor running_mean, Tensor running_variance) = 0;

  // -- pools. y has the scale of x. The maximum of codes is exact, and their average is rounded to nearest. Of equal
  // values the first in row order is the maximum. The gradient passes a rectified maximum if it is above 0.
  virtual void pool_forward(const PoolProblem&, QTensor x, QTensor y) = 0;
  virtual void pool_backward(const PoolProblem&, QTensor x, QTensor y, Tensor dy, Into dx) = 0;
  // y (f32, (N,1,1,C)) = mean over pixels of x's real values; dy is f32.
  virtual void global_pool_forward(QTensor x, Tensor y) = 0;
  virtual void global_pool_backward(Tensor dy, Into dx) = 0;
  // -- pools of regions. All levels have one type, which y has too. The codes of y have the largest of the levels'
  // scales: an average cannot exceed it. The table is as RoiRow says.
  virtual void roi_pool_forward(const RoiProblem&, std::span<const QTensor> levels, Tensor table, QTensor y) = 0;
  // Writes the gradients of all levels that are not empty. Each element is summed in f32, over regions in order, then
  // over rows and columns of bins, and is then rounded or added. The levels' values are read by RoiKind::max alone.
  virtual void roi_pool_backward(const RoiProblem&, std::span<const QTensor> levels, Tensor table, Tensor dy,
                                 std::span<const Into> d_levels) = 0;
  // -- concatenation along C. Codes are rounded again to the largest scale of the parts. Real parts are copied.
  virtual void concat_forward(std::span<const QTensor> parts, QTensor y) = 0;
  virtual void concat_backward(Tensor dy, std::span<const Into> parts) = 0;

  // -- dropout in training. y = 0 where random_bits16(key, element) < rate * 65536, else x / (1 - rate). Codes that are
  // not dropped stay the same, and their scale is divided by 1 - rate. Backward drops the gradient where the same key
  // drops the value.
  virtual void dropout_forward(QTensor x, float rate, const RngKey&, QTensor y) = 0;
  virtual void dropout_backward(Tensor dy, float rate, const RngKey&, Into dx) = 0;

  // -- softmax cross-entropy with label smoothing. logits: (N,1,1,K) f32. d_logits = gradient * gradient_scale (1 /
  // global batch), or empty in evaluation. labels: (N) in [0, K), or -1 for a padded sample, which is not counted
  // anywhere. weights: (N) factors of losses and gradients, or null for ones.
  virtual void softmax_loss(Tensor logits, const int32_t* labels, const float* weights, float smoothing,
                            float gradient_scale, Tensor d_logits, LossReport* report) = 0;
  // -- losses of detection. Gradients are f32 or bf16, multiplied by gradient_scale, and 0 where nothing is compared;
  // the tensor is empty in evaluation.
  // logits: (N, H, W, anchors * classes) f32. labels: (N, H, W, anchors) in [-1, classes]. image_scale: (N) factors of
  // losses and gradients. report->count: anchors that are not ignored.
  virtual void sigmoid_loss(const SigmoidProblem&, Tensor logits, const int32_t* labels, const float* image_scale,
                            float gradient_scale, Tensor d_logits, LossReport* report) = 0;
  // Smooth L1 where labels > 0. predictions: rows of f32; the rows are N * H * W. targets: (rows, boxes, 4) f32.
  // labels: (rows, boxes); below `choices` if there are several. scale: factors of losses and gradients.
  // report->count: boxes that are compared.
  virtual void box_loss(const BoxLossProblem&, Tensor predictions, Tensor targets, const int32_t* labels,
                        const float* scale, float gradient_scale, Tensor d_predictions, LossReport* report) = 0;

  // -- weight update, as in PyTorch: v = momentum * v + (g + decay * w);  w -= rate() * lr_scale * v. With nesterov the
  // last factor is g + decay * w + momentum * v. lr_scale: the layer's phi(d_c), or null for 1.
  virtual void sgd_update(const SgdProblem&, Tensor w, Tensor gradient, Tensor velocity, const float* lr_scale) = 0;
  // average += share * (value - average), both f32.
  virtual void move_average(float share, Tensor value, Tensor average) = 0;
  // sums (+)= values (f32) in fixed point, see shared/fixed_point.h. *beyond = 1 if a value does not fit, else
  // unchanged.
  virtual void add_fixed(Tensor values, int64_t* sums, bool add, int32_t* beyond) = 0;
  virtual void read_fixed(const int64_t* sums, Tensor values) = 0;  // values (f32) = sums
  // *found = 1 if an element is not finite, else 0.
  virtual void find_nonfinite(Tensor, int32_t* found) = 0;
  // Waits for the answer, and returns whether all elements are finite.
  bool all_finite(Tensor);
};

inline bool Backend::all_finite(Tensor tensor) {
  const auto found = allocate(sizeof(int32_t));
  find_nonfinite(tensor, static_cast<int32_t*>(found->data()));
  int32_t answer = 0;
  to_host(&answer, found->data(), sizeof answer);
  return answer == 0;
}

enum class Isa : uint8_t { scalar, avx2, avx512_vnni, amx, neon_dot };  // rows of the table in cpu/isa.cpp
const char* name_of(Isa);
Isa isa_from_name(const std::string&);  // UsageError: the name is unknown; the message gives the known names
std::vector<std::string> isa_names();   // all known names
std::vector<Isa> available_isas();      // of this processor and operating system, the best last
Isa best_isa();

enum class RealConvolution : uint8_t {
  fixed_order,      // own kernels: the same bits on every instruction set (unquantized layers of an int8 policy)
  library,          // the fp32 policy: oneDNN, or cuDNN on a GPU; fastest, but other machines may give other bits
  chunked_float16,  // the fp8 policy: sums are FP16 (1, 6, 9), in chunks of 64; on a CPU
};
struct CpuOptions {
  Isa isa = Isa::scalar;  // must be available
  int threads = 1;
  RealConvolution real = RealConvolution::fixed_order;
};
struct CudaOptions {
  int device = 0;                   // the number of the GPU: the rank's place among the ranks of this machine
  bool check_every_kernel = false;  // wait after each kernel, so that an error names the kernel; records nothing then
  bool record = true;               // run() records CUDA graphs
  RealConvolution real = RealConvolution::fixed_order;
};
std::unique_ptr<Backend> make_reference_backend();
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions&);
// UsageError: octet was built without CUDA, or cannot run on this machine; the message says what is missing.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&);
bool built_with_cuda();

}  // namespace octet
