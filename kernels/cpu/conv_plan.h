// The geometry of one convolution as tables for the contraction kernels. A plan depends on the layer's shape and on the
// kernels' packing. Where sums of real numbers are taken per work item, the items depend on the shape alone, so that
// they have the same bits on every instruction set.
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
    // A phase whose pixels have fewer taps uses the weights of another, from a word on, and has no weight_offset.
    int64_t parent = -1, first_word = 0;
  };
  Shape from, to;      // (from.n == to.n images)
  int64_t images = 1;  // per work item
  int64_t items = 1;
  bool depthwise = false;  // one group, one segment per tap; taps come in pairs, the last may have weight 0
  int groups = 1;
  int64_t group_from, group_to;      // channels per group
  int64_t weight_group;              // elements of one group's weights
  int64_t lane_step;                 // elements between the weights of neighbouring output channels
  int64_t rows, columns, top, left;  // packed image: `from` with its halo
  int64_t packed_bytes;              // of an item, with the slack that kernels may read
  std::vector<Phase> phases;
  int64_t images_of(int64_t item) const { return std::min(images, from.n - item * images); }
  bool has_halo() const { return rows != from.h || columns != from.w; }
};
// images: per work item; 0: as the problem's size asks for.
GatherPlan plan_forward(const ConvProblem&, const ContractionKernels&, int64_t images = 0);
GatherPlan plan_backward_data(const ConvProblem&, const ContractionKernels&);

inline constexpr int64_t small_gradient = 64 * 1024;  // up to so many sums, each thread has its own copy

// The weight gradient contracts over pixels: x as channel planes with halo (rows and columns sorted by their phase of
// the stride, so that the pixels that a tap reads lie side by side), dy as words of `group` neighbouring pixels. Those
// of a segment lie side by side.
enum class Segments : uint8_t {
  rows,    // of dy
  images,  // a plane for each column of taps, without columns of halo
  item,    // one, with pixels between rows and images whose dy is 0
};
struct WeightGradientPlan : ConvProblem {  // y: the shape of dy
  explicit WeightGradientPlan(const ConvProblem& p)
      : ConvProblem(p), group_x(p.x.c / groups), group_dy(p.y.c / groups) {}
  int64_t group_x, group_dy;  // channels per group
  int64_t images = 1, items = 1;
  int phases_h, phases_w;  // that taps read
  int64_t phase_step = 1;  // columns of x from a phase to the next
  int64_t rows, columns;   // of an image in one phase of a plane
  int64_t plane_elements;  // of an item: phases_h * phases_w * images * rows * columns, and a gap
  Segments segments = Segments::rows;
  int words;                  // per segment
  std::vector<int32_t> base;  // per (tap, channel of the group): byte offset
  int64_t pair_step = 0;
  std::vector<int32_t> segment;  // byte offsets
  int64_t images_of(int64_t item) const { return std::min(images, x.n - item * images); }
  int64_t segments_of(int64_t item) const {
    return segments == Segments::item ? 1 : images_of(item) * (segments == Segments::rows ? y.h : 1);
  }
  int64_t pixels_of(int64_t item) const {  // of one segment
    if (segments == Segments::images) return y.h * y.w;
    return segments == Segments::rows ? y.w : ((images_of(item) - 1) * rows + y.h - 1) * columns + y.w;
  }
  // Whether pixels lie between rows.
  bool spread() const { return segments == Segments::item && (rows != y.h || columns != y.w); }
  // Whether planes hold elements that no pixel of x fills. Taps may read behind x although nothing stands before it.
  bool has_halo() const {
    return kernel_h > 1 || kernel_w > 1 || stride_h > 1 || stride_w > 1 || pad_h > 0 || pad_w > 0 || rows != x.h ||
           columns != x.w;
  }
  int64_t pixels_per_item() const { return images * y.h * y.w; }
};
WeightGradientPlan plan_backward_weight(const ConvProblem&, const ContractionKernels&);

}  // namespace octet::cpu
