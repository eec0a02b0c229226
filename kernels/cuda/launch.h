// What one .cu file offers to other files. Each function launches kernels on the stream and returns at once; pointers
// are the device's. Backend methods whose kernels nobody else uses are defined beside those kernels.
#pragma once
#include "kernels/backend.h"
#include "kernels/block_codec.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/step_key.h"

namespace octet::cuda {

class CudaBackend;

// f32 or bf16 elements that a kernel writes, or adds to.
struct RealOutput {
  void* data = nullptr;
  bool bf16 = false, add = false;
};
inline RealOutput real_output(const Into& into) {
  return {into.tensor.data, into.tensor.dtype == DType::bf16, into.add};
}

// What a convolution does with its sums: to (+)= sum * *scale * *weight_scale; real operands have no scales.
// moments (optional): room for moment_floats() of the gather, see launch_combine_moments.
struct Output {
  const float *scale = nullptr, *weight_scale = nullptr;
  RealOutput to;
  float* moments = nullptr;
};
inline int64_t moment_floats(const Gather& g) { return int64_t{5} * g.chunks * g.to_channels; }

// conv_tensor.cu: convolutions of codes on int8 tensor cores, without groups. DType: that of the codes before it, s8 or
// u8. from: (images, h, w, from_channels rounded up to 16), 16-byte aligned. weights: those of output channel c and tap
// t lie at c * lane_bytes + t * tap_bytes, from_channels rounded up of them.
void launch_tensor_gather(const Gather&, const int8_t* from, DType, const int8_t* weights, int lane_bytes,
                          int tap_bytes, const Output&, Stream);
// The blocks of one split of a weight gradient, and how many of them a processor holds at once.
struct TensorTiles {
  int64_t count;
  int per_processor;
};
TensorTiles tensor_weight_tiles(const WeightGather&);
// partial[split][output channel][tap][input channel] = sums over the split's share of the pixels. x and dy are channel
// major: (channels, h, w, images rounded up to 16), zeros beyond the images.
void launch_tensor_weight(const WeightGather&, const int8_t* x, DType, const int8_t* dy, int splits, int32_t* partial,
                          Stream);

// conv_direct.cu: any groups; codes with exact sums, or f32 in the fixed order. Neighbouring threads compute
// neighbouring output channels, so a gather's lane_step is best 1.
void launch_direct_gather(const Gather&, const void* from, DType, const void* weights, const Output&, Stream);

// conv_direct_weight.cu: partial[item][output channel][tap][input channel]: int32 sums of codes, f32 sums of real
// values.
void launch_direct_weight(const WeightGather&, const void* x, DType, const void* dy, void* partial, Stream);
// dw (count) (+)= the sum of all parts (int64, or double in order) * *scale_x * *scale_dy (null: 1).
void launch_finish_weight(bool real, const void* partial, int parts, int64_t count, const float* scale_x,
                          const float* scale_dy, Into dw, Stream);

// conv_layout.cu: to (count elements, f32 or bf16) (+)= from.
void launch_copy_real(const float* from, int64_t count, const RealOutput& to, Stream);

// moments.cu. items: room for 4 * item_count() * channels doubles.
inline int item_count(const Gather& g) { return (g.chunks + g.chunks_per_item.value - 1) / g.chunks_per_item.value; }
// The moments of a finished output y, f32 (pixels, channels), in the form that a convolution's epilogue writes.
void launch_chunk_moments(const Gather&, const float* y, float* chunk_moments, Stream);
void launch_combine_moments(const Gather&, const float* chunk_moments, double* items, Moments, Stream);

// affine_coefficients.cu: what is computed once for each channel or tensor.
struct ClipRange {
  uint32_t largest;  // bits of max |value|
  float clip, inverse_scale;
};
// Completes a range from its largest value, or from the held clip, and writes the scale.
void launch_finish_range(ClipRange*, Range, const float* held, int qmax, float* scale, Stream);
// a, b, mean: (channels) each, for numbers in the units given by scale and offset, (channels) each or null for 1 and 0.
void launch_affine_coefficients(const AffineProblem&, Moments, AffineParameters, const float* scale,
                                const float* offset, float* a, float* b, float* mean, Stream);
// The unit of each channel between its extremes.
void launch_units(Moments, int64_t channels, float* scale, float* offset, Stream);
// The range of activation(a x + b) from the extremes of x.
void launch_affine_extremes(Activation, int64_t channels, const float* a, const float* b, Moments, uint32_t* largest,
                            Stream);
// sums: what launch_affine_reduce wrote, or null for zeros.
void launch_affine_gradients(const AffineProblem&, Moments, AffineParameters, const float* scale, const float* offset,
                             const double* sums, float* A, float* B, float* C, Into d_gamma, Into d_beta, Stream);

// affine_reduce.cu: for each channel the sums of dz and of dz (x - mean), (2, channels) doubles. partial and chunks:
// room for affine_partial_floats() floats and as many doubles.
struct AffineBackwardValues;
int64_t affine_partial_floats(int64_t elements, int64_t channels);
void launch_affine_reduce(const AffineBackwardValues&, const float* mean, int64_t count, float* partial, double* chunks,
                          double* sums, Stream);

// softmax_loss.cu. row_losses: room for (rows); exponentials: for (rows, classes).
struct RowLoss {
  double loss;
  int rank;  // of the label; -1: the row does not count
};
void launch_softmax_loss(const float* logits, const int32_t* labels, const float* weights, int64_t rows,
                         int64_t classes, float smoothing, float gradient_scale, double* exponentials, float* d_logits,
                         RowLoss* row_losses, LossReport* report, Stream);

// block_codec.cu
std::unique_ptr<BlockCodec> make_codec(const CodecProblem&, const CudaBackend&, Stream);

}  // namespace octet::cuda
