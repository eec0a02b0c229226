// The kernels, as the backend calls them: each function launches on the stream and returns at once. Pointers are the
// device's. One declaration block per .cu file.
#pragma once
#include "kernels/backend.h"
#include "kernels/block_codec.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/step_key.h"

namespace octet::cuda {

// What becomes of a convolution's sums: to (+)= sum * *scale * *weight_scale; real operands have no
// scales. moments (optional): room for moment_floats() of the gather, see launch_combine_moments.
struct Output {
  const float *scale = nullptr, *weight_scale = nullptr;
  void* to = nullptr;
  bool bf16 = false, add = false;
  float* moments = nullptr;
};
inline int64_t moment_floats(const Gather& g) { return int64_t{5} * g.chunks * g.to_channels; }

// conv_tensor.cu: int8 tensor cores, no groups. A type is that of the codes before it: s8 or u8. from: (images, h, w,
// from_channels rounded up to 16), 16-byte aligned. weights: of output channel c and tap t, lane c * lane_bytes + t *
// tap_bytes, from_channels rounded up.
void launch_tensor_gather(const Gather&, const int8_t* from, DType, const int8_t* weights, int lane_bytes,
                          int tap_bytes, const Output&, Stream);
// partial[split][output channel][tap][input channel] = sums over the split's share of the pixels. x and dy are channel
// major: (channels, h, w, images rounded up to 16), zeros beyond the images.
int64_t tensor_weight_tiles(const WeightGather&);  // of one split
void launch_tensor_weight(const WeightGather&, const int8_t* x, DType, const int8_t* dy, int splits, int32_t* partial,
                          Stream);

// conv_layout.cu: to[row][0 .. padded) = from[row], zeros beyond.
void launch_pad_rows(const int8_t* from, int64_t rows, int length, int padded, int8_t* to, Stream);
// to (row, padded outputs) = weights (outputs, row), zeros beyond; row: taps * inputs.
void launch_transpose_weights(const int8_t* weights, int outputs, int64_t row, int padded, int8_t* to, Stream);
void launch_transpose_weights(const float* weights, int outputs, int64_t row, float* to, Stream);
// to (channels, pixels, padded images) = from (images, pixels, channels), zeros beyond.
void launch_channel_major(const int8_t* from, int images, int pixels, int channels, int padded, int8_t* to, Stream);

// conv_direct.cu: any groups; codes with exact sums, or f32 in the fixed order. Neighbouring threads make neighbouring
// output channels, so a gather's lane_step is best 1.
void launch_direct_gather(const Gather&, const void* from, DType, const void* weights, const Output&, Stream);
// partial[item][output channel][tap][input channel]: int32 sums of codes, or f32 sums of real values.
void launch_direct_weight(const WeightGather&, const void* x, DType, const void* dy, void* partial, Stream);
// dw (+)= the sum of all parts (int64, or double in order) * *scale_x * *scale_dy (null: 1).
void launch_finish_weight(bool real, const void* partial, int parts, int64_t count, const float* scale_x,
                          const float* scale_dy, float* dw, bool add, Stream);

// copy_real.cu: to (f32 or bf16) (+)= from.
void launch_copy_real(const float* from, int64_t count, void* to, bool bf16, bool add, Stream);

// moments.cu. items: room for 4 * item_count() * channels doubles.
inline int item_count(const Gather& g) { return (g.chunks + g.chunks_per_item - 1) / g.chunks_per_item; }
// The moments of a finished output y, f32 (pixels, channels), as a convolution's epilogue writes them.
void launch_chunk_moments(const Gather&, const float* y, float* chunk_moments, Stream);
void launch_combine_moments(const Gather&, const float* chunk_moments, double* items, Moments, Stream);
void launch_update_running(Moments, int64_t count, float momentum, float* mean, float* variance, int64_t channels,
                           Stream);

// The values that elementwise passes compute and then encode. Coefficients are (channels) each; channels is 1 where
// there are none.
struct PlainValues {
  const void* x;
  DType type;
  int channels = 1;
};
struct AffineForwardValues {  // clamp(a x + b + residual, low, high)
  const void* x;
  DType type;
  int channels;
  const float *a, *b;
  const void* residual;  // null: none
  DType residual_type;
  const float* residual_scale;  // of codes
  float low, high;
};
// A dz + (B x + C),  dz = dy where low < a x + b (+ residual) < high, else 0; dy everywhere unless activated.
struct AffineBackwardValues {
  const void *x, *dy, *residual;  // residual: null, codes or f32
  DType type, dy_type, residual_type;
  const float* residual_scale;
  int channels;
  bool activated;
  const float *a, *b, *A, *B, *C;
  float low, high;
  void* d_residual = nullptr;  // encoding writes dz here
  bool residual_bf16 = false, residual_add = false;
};

// passes.cu: elementwise, over rows of row_length elements, each with a range of its own. Instantiated for the values
// above.
struct ClipRange {
  uint32_t largest;  // bits of max |value|
  float clip, inverse_scale;
};
struct Sink {
  DType type = DType::f32;  // codes, or f32
  bool stochastic = false;
  int lowest = -127, qmax = 127;
  const ClipRange* ranges = nullptr;  // (rows)
  void* out = nullptr;
  uint64_t* saturated = nullptr;
};
template <class Values>
void launch_absmax(const Values&, int64_t rows, int64_t row_length, ClipRange* ranges, Stream);
template <class Values>
void launch_histogram(const Values&, int64_t count, Probe, Stream);
template <class Values>
void launch_encode(const Values&, int64_t rows, int64_t row_length, const StepKey&, const Sink&, Stream);
// Per channel the sums of dz and of dz (x - mean), (2, channels) doubles. partial: room for affine_partial_floats.
int64_t affine_partial_floats(int64_t elements, int64_t channels);
void launch_affine_reduce(const AffineBackwardValues&, const float* mean, int64_t count, float* partial, double* chunks,
                          double* sums, Stream);
void launch_dequantize(const void* codes, DType, int64_t count, const float* scale, float* out, Stream);
// codes = (x - offset) / scale, per channel.
void launch_keep_codes(const void* x, DType, int64_t count, int64_t channels, const float* scale, const float* offset,
                       int8_t* codes, Stream);
// *found becomes 1 when an element is not finite.
void launch_find_nonfinite(const void* x, DType, int64_t count, int32_t* found, Stream);
// The rate is the state's, or the problem's without one, times *lr_scale (null: 1).
void launch_sgd(const SgdProblem&, const StepState*, const float* lr_scale, float* w, const float* gradient,
                float* velocity, int64_t count, Stream);

// coefficients.cu: what is computed once per channel or tensor.
void launch_clear_ranges(ClipRange* ranges, int64_t rows, Stream);
// Completes ranges from their largest, or from the held clip, and writes the scales (rows).
void launch_finish_ranges(ClipRange* ranges, int64_t rows, Range, const float* held, int qmax, float* scales, Stream);
// a, b, mean: (channels) each, for numbers in the units given, (channels) of both or null for 1 and 0.
void launch_affine_coefficients(const AffineProblem&, Moments, AffineParameters, const float* scale,
                                const float* offset, float* a, float* b, float* mean, Stream);
// The unit of each channel between its extremes.
void launch_units(Moments, int64_t channels, float* scale, float* offset, Stream);
// The range of activation(a x + b) from the extremes of x.
void launch_affine_extremes(Activation, int64_t channels, const float* a, const float* b, Moments, ClipRange* range,
                            Stream);
// sums as launch_affine_reduce leaves them, or null for zeros.
void launch_affine_gradients(const AffineProblem&, Moments, AffineParameters, const float* scale, const float* offset,
                             const double* sums, float* A, float* B, float* C, Into d_gamma, Into d_beta, Stream);

// dropout.cu
void launch_dropout_forward(const void* x, DType, const float* x_scale, int64_t count, float rate, const StepKey&,
                            void* y, float* y_scale, Stream);
void launch_dropout_backward(const void* dy, DType dy_type, int64_t count, float rate, const StepKey&, void* dx,
                             bool bf16, bool add, Stream);

// pools.cu. choices: of maxima, which pixel of its window, padding included, each output took, (outputs) of them, or
// null. y null: only they are written.
void launch_pool_forward(const PoolProblem&, const void* x, DType, const float* x_scale, void* y, float* y_scale,
                         uint16_t* choices, Stream);
void launch_pool_backward(const PoolProblem&, const uint16_t* choices, const void* dy, DType dy_type, void* dx,
                          bool bf16, bool add, Stream);
void launch_global_pool_forward(Shape x_shape, const void* x, DType, const float* scale, float* y, Stream);
void launch_global_pool_backward(Shape x_shape, const void* dy, DType dy_type, void* dx, bool bf16, bool add, Stream);

// concat.cu: to (pixels, all_channels) from channel `first` on.
void launch_largest_scale(const float* const* scales, int count, float* largest, Stream);  // of at most max_parts
inline constexpr int max_parts = 64;
void launch_concat_part(const void* from, DType, const float* scale, const float* all_scale, int64_t pixels,
                        int channels, int all_channels, int first, void* to, Stream);
void launch_split_part(const void* from, DType, int64_t pixels, int channels, int all_channels, int first, void* to,
                       bool bf16, bool add, Stream);

// loss.cu. rows of losses: room for (rows); exponentials: for (rows, classes).
struct RowLoss {
  double loss;
  int rank;  // of the label; -1: the row does not count
};
void launch_softmax_loss(const float* logits, const int32_t* labels, int64_t rows, int64_t classes, float smoothing,
                         float gradient_scale, double* exponentials, float* d_logits, RowLoss* row_losses,
                         LossReport* report, Stream);

// exchange.cu: the steps of a BlockCodec over the parts of one bucket.
struct PartTable {
  const BlockPart* parts = nullptr;
  size_t count = 0;
};
void launch_measure_blocks(PartTable, const float* values, float* absmax, Stream);
void launch_encode_blocks(PartTable, const float* values, const float* absmax, const StepKey&, int8_t* codes, Stream);
void launch_reduce_blocks(PartTable, const int8_t* received, size_t shard, int ranks, const StepKey&, int8_t* summed,
                          Stream);
void launch_decode_blocks(PartTable, const int8_t* codes, const float* absmax, int ranks, float* values, Stream);
void launch_collect_parts(PartTable, const float* values, float* exact, Stream);
void launch_distribute_parts(PartTable, const float* exact, float* values, Stream);

}  // namespace octet::cuda
