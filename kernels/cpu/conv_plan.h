// The geometry of one convolution as tables for the contraction kernels. A plan depends on the layer's shape and on the
// kernels' packing; where its work items begin and end depends on the shape alone, so that whatever is summed per item
// is summed alike on every instruction set.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/contraction.h"

namespace octet::cpu {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// As many groups as input and as output channels: depthwise kernels.
inline bool is_depthwise(const ConvProblem& p) { return p.groups > 1 && p.x.c == p.groups && p.y.c == p.groups; }

// Forward and data gradient are both gathers: to[j * to_step + phase] = sum over taps of from[j * from_step +
// shift(tap)]. The data gradient of stride s has s * s phases with few taps each; its taps are flipped, its weights
// transposed.
struct GatherPlan {
  struct Phase {
    std::vector<int32_t> base;            // per pixel of an item: byte offset of its window in the packed images
    std::vector<int32_t> pixel;           // per pixel of an item: index of the output pixel, from the item's first
    std::vector<int32_t> segment;         // byte offsets from the base; neighbouring taps in a row are one segment
    std::vector<int32_t> weight_offset;   // per contraction element: offset from the lane's weights, -1: zero
    int64_t pair_step = 0, row_step = 0;  // see Panel
    int64_t pixels_per_image = 0;
    int words = 0;             // per segment
    int64_t packed_words = 0;  // of all segments, per block of output channels
  };
  Shape from, to;      // (from.n == to.n images)
  int64_t images = 1;  // per work item
  int64_t items = 1;
  bool depthwise = false;  // seen as one group, with a segment per tap; taps come in pairs, the last may weigh nothing
  int groups = 1;
  int64_t group_from, group_to;      // channels per group
  int64_t weight_group;              // elements of one group's weights
  int64_t lane_step;                 // elements between the weights of neighbouring output channels
  int64_t rows, columns, top, left;  // packed image: `from` with its halo
  int64_t packed_bytes;              // of an item, with the slack that kernels may read
  std::vector<Phase> phases;
  int64_t images_of(int64_t item) const { return std::min(images, from.n - item * images); }
};
GatherPlan plan_forward(const ConvProblem&, const ContractionKernels&);
GatherPlan plan_backward_data(const ConvProblem&, const ContractionKernels&);

// The weight gradient contracts over pixels: x as channel planes with halo (columns sorted by phase of the stride, so
// that the pixels of one output row lie side by side), dy as words of `group` neighbouring pixels of a row.
struct WeightGradientPlan {
  Shape x, dy;
  bool one_row = false;  // of a list of pixels: an item is one row of `images` pixels
  int64_t images = 1, items = 1;
  int groups = 1;
  int64_t group_x, group_dy;  // channels per group
  int stride_h, stride_w, pad_h, pad_w;
  int64_t rows, phase_columns, row_elements,
      plane_elements;           // of the packed x: an item's plane is images * rows * row_elements
  int64_t dy_rows, dy_columns;  // per item
  int words;                    // per row of dy
  std::vector<int32_t> base;    // per (tap, channel of the group): byte offset
  int64_t pair_step = 0;
  std::vector<int32_t> segment;  // per dy row of an item: byte offset
  int64_t rows_of(int64_t item) const { return one_row ? 1 : std::min(images, x.n - item * images) * dy.h; }
  int64_t pixels_per_item() const { return dy_rows * dy_columns; }
};
WeightGradientPlan plan_backward_weight(const ConvProblem&, const ContractionKernels&);

}  // namespace octet::cpu
