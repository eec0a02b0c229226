// What the kernels of convolutions offer to convolution.cpp. Each function launches kernels on the stream and returns
// at once; pointers are the device's.
#pragma once
#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/geometry.h"
#include "kernels/cuda/kernel_arguments.h"
#include "kernels/cuda/runtime.h"

namespace octet::cuda {

// Where the blocks of a convolution of codes add the exact moments of its channels, and where the last block writes
// them. Sums of each channel and tickets of each tile of channels are 0 before and afterwards.
struct ExactTotals {
  // The norm of these moments, whose coefficients the last block computes; a is null: none.
  struct Norm {
    AffineProblem problem = {};
    AffineParameters parameters = {};
    float *a = nullptr, *b = nullptr;
  };
  int64_t *sum = nullptr, *low = nullptr, *high = nullptr;
  uint32_t *most = nullptr, *least = nullptr;  // as ChannelSums has them
  unsigned* tickets = nullptr;
  Moments moments = {};
  bool extremes = false;
  Norm norm = {};
};
// Tiles hold at least so many channels: those of the first layer have four columns for each.
inline constexpr int narrowest_tile = 16;

// Where a data gradient sums for the norm whose output's gradient it finishes, see NormSums. Sums of chunks and of
// their groups are (chunks or groups, 2, channels).
struct NormOutput {
  const uint16_t* x = nullptr;
  const uint8_t* mask = nullptr;  // null: the gradient passes everywhere
  float* of_chunks = nullptr;     // null: it does not sum
  double* of_groups = nullptr;
  // Of each tile of channels, behind those of each group in it; 0 before and afterwards.
  unsigned* tickets = nullptr;
  AffineGradients gradients = {};
};

// The first layer: columns are digits of channels, see pixels.cu, and y is what they make.
struct PixelOutput {
  const float* factors = nullptr;  // (channels); null: another layer
  int channels = 0;
};

// Whether only pixels in even rows and columns hold something to add to. A gather may take the pixels of all images for
// one row: hence the divisors of an image and of its rows.
struct EvenPixels {
  bool alone = false;
  Divisor image_pixels, row_pixels;
};

// What a convolution does with its sums: to (+)= sum * *scale * *weight_scale; real operands have no scales. Moments
// are optional: exact of codes, and of real values in room for moment_floats() of the gather, see
// launch_combine_moments. mask, even: of what is added to, as Into has them; on tensor cores alone. The mask's bits are
// in the order of AffineForwardValues.
struct Output {
  const float *scale = nullptr, *weight_scale = nullptr;
  RealOutput to;
  const uint8_t* mask = nullptr;
  EvenPixels even = {};
  ExactTotals totals = {};
  float* chunk_moments = nullptr;
  NormOutput norm = {};
  PixelOutput pixels = {};
};
OCTET_BOTH bool measures(const Output& output) {
  return output.totals.sum != nullptr || output.chunk_moments != nullptr;
}
inline int64_t moment_floats(const Gather& g) { return int64_t{5} * g.chunks * g.to_channels; }

// The columns of the first layer's weights: six of each eight are the digits of two channels, the lowest first.
inline constexpr int pixel_digits = 3;
OCTET_BOTH int pixel_column(int channel, int digit) { return channel / 2 * 8 + channel % 2 * pixel_digits + digit; }
inline int64_t pixel_columns(int64_t channels) { return (channels + 1) / 2 * 8; }

// Tensor cores read the channels of a pixel in pieces of 16 bytes.
constexpr int64_t padded_channels(int64_t channels) { return (channels + 15) / 16 * 16; }

// conv_tiles.cu: convolutions of codes on int8 tensor cores, without groups. DType: that of the codes before it, s8 or
// u8. from: (images, h, w, from_channels padded), 16-byte aligned. weights: those of output channel c and tap t lie at
// c * lane_bytes + t * tap_bytes, from_channels padded of them.
// The gathers are phases of one convolution, the largest first, or one is all of it.
void launch_gather_tiles(std::span<const Gather>, const int8_t* from, DType, const int8_t* weights, int lane_bytes,
                         int tap_bytes, const Output&, int processors, Stream);

// Whether it can sum for a norm on the way, and how many tickets that takes.
bool sums_for_norms(const Gather&, const Output&);
int64_t norm_tickets(const Gather&);

// conv_weight.cu: weight gradients of the same. The sum over the pixels of dy is cut into splits: as many as fit on the
// processors at once, since one more would run alone after the others; none of more than most_products.
struct WeightSplits {
  int length;  // pixels of each split but the last
  int parts;
  int tiles;  // of one split
};
WeightSplits tensor_weight_splits(const WeightGather&, int processors, int64_t most_products);
// dw (output channels, taps, input channels), f32, (+)= the exact sum of all splits * *scale_x * *scale_dy. Blocks add
// the sums of their splits to the totals, and the last block of a tile to arrive at its ticket makes dw of them. Totals
// (of dw's shape) and tickets (of each tile) are 0 before and afterwards. Null: there is one split. Without dw the sums
// are added to the totals, and that is all.
struct WeightOutput {
  const float *scale_x = nullptr, *scale_dy = nullptr;
  float* dw = nullptr;
  bool add = false;
  int64_t* totals = nullptr;
  unsigned* tickets = nullptr;
};
// x and dy: channels padded, 16-byte aligned.
void launch_tensor_weight(const WeightGather&, const int8_t* x, DType, const int8_t* dy, const WeightSplits&,
                          const WeightOutput&, Stream);

// conv_depthwise.cu: depthwise convolutions of codes, with neighbouring taps, at most 3x3 of them, and channels in
// fours. weights: (channels, kernel_h, kernel_w).
bool depthwise_fits(const Gather&, const void* from, const Output&);
void launch_depthwise_gather(const Gather&, const void* from, DType, const int8_t* weights, const Output&, Stream);
// As for tensor cores. The length of a split counts groups of four neighbouring pixels of a row.
bool depthwise_fits(const WeightGather&, const void* x, const void* dy);
WeightSplits depthwise_weight_splits(const WeightGather&, int processors, int64_t most_products);
void launch_depthwise_weight(const WeightGather&, const void* x, DType, const void* dy, const WeightSplits&,
                             const WeightOutput&, Stream);

// conv_direct.cu: any groups; codes with exact sums, or f32 in the fixed order. Neighbouring threads compute
// neighbouring output channels, so a gather's lane_step is best 1.
void launch_direct_gather(const Gather&, const void* from, DType, const void* weights, const Output&, Stream);

// conv_linear.cu: the same of f32 where each pixel has one tap, its own, without groups and moments.
bool is_matrix_product(const Gather&, const Output&);
void launch_matrix_product(const Gather&, const float* from, const float* weights, const Output&, Stream);

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
// Of real values. The moments of a finished output y, f32 (pixels, channels), in the form that a convolution's epilogue
// writes.
void launch_chunk_moments(const Gather&, const float* y, float* chunk_moments, Stream);
void launch_combine_moments(const Gather&, const float* chunk_moments, double* items, Moments, Stream);

}  // namespace octet::cuda
