// The geometry of one convolution, as kernels receive it: by value, in 32-bit integers.
#pragma once
#include <vector>

#include "kernels/backend.h"
#include "kernels/shared/random.h"

namespace octet::cuda {

inline constexpr int max_taps = 32;  // along one axis

// Divides 0 <= n < 2^31 by `value` with a product, since GPUs have no instruction that divides integers: the quotient
// is n * multiplier / 2^shift. multiplier is 2^shift / value, rounded up, with shift = 31 + the number of bits of value
// - 1. Rounding adds less than n / 2^shift < 1 / value, too little to change the whole part.
struct Divisor {
  int value = 1;
  uint32_t multiplier = 0x80000000u;
  int shift = 31;
  Divisor() = default;
  explicit Divisor(int by);
};
OCTET_BOTH int quotient(int n, const Divisor& by) {
  return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * by.multiplier >> by.shift);
}

// One axis of a gather: output first + i * step, for i < count, reads input i * from_step + shift for every tap.
struct Axis {
  int from, to;  // extents
  int from_step;
  int first, step, count;
  int taps;
  int16_t shift[max_taps];
  int16_t kernel[max_taps];  // the row or column of the kernel
};

// Forward and data gradient are both gathers: to[pixel] = sum over taps and channels of from[...] * weight. The data
// gradient of stride s is s * s of them (phases), each with few taps; its kernel is flipped. Taps come in the order in
// which real values are added.
struct Gather {
  Axis h, w;
  int images;
  int from_channels, to_channels;  // of whole pixels
  int group_from, group_to;        // of one group
  int kernel_w;
  // Offset of a weight: group * weight_group + output channel * lane_step + tap * tap_step + input channel *
  // channel_step.
  int weight_group, lane_step, tap_step, channel_step;
  // Pixels in chunks of 64 within items (shared/sums.h).
  int pixels, item_pixels, chunks;
  Divisor chunks_per_item, image_pixels, row_pixels;  // the last two: of the outputs of one phase
};
// items: the pixels are cut for moments of real values; else they are one list.
Gather forward_gather(const ConvProblem&, bool items);
// Whether no tap of an output reads beyond the input.
bool taps_stay_inside(const Gather&);
// The shape of x with its padding in memory: pad_h rows above, pad_w columns on the left, and behind the image as many
// as the taps of y reach.
Shape padded_shape(const ConvProblem&);
// Lets a forward gather or a weight gradient read images of that shape.
void read_padded(const ConvProblem&, Gather&);
std::vector<Gather> backward_gathers(const ConvProblem&);  // the phases

// The weight gradient, over all pixels of dy.
struct WeightGather {
  int images, x_h, x_w, x_channels, y_h, y_w, y_channels;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int group_x, group_y;    // channels per group
  int item_images, items;  // direct kernels sum one item after another
};
WeightGather weight_gather(const ConvProblem&);
void read_padded(const ConvProblem&, WeightGather&);

}  // namespace octet::cuda
