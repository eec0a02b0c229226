// Convolutions that write codes, of integer networks: by tables (conv_plan.h) and contraction kernels (contraction.h),
// as those of training. Weights are packed once. Sums are exact, so work is cut as it suits caches and threads.
#pragma once
#include <vector>

#include "kernels/cpu/contraction.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/scratch.h"

namespace octet::cpu {

// How the sums of a channel may be rounded in f32, see CodeRounding.
struct SumBounds {
  bool in_floats;
  int32_t least, most;
};
// factor, residual_factor (0: no residual): of the channel. reach: no sum is further from 0.
SumBounds bound_sums(double factor, double residual_factor, DType residual, int lowest, int highest, double reach);

class CodeConvolution final : public ReadyConvolution {
 public:
  // packed: of each thread. Kernels and scratch must outlive this object.
  CodeConvolution(const ContractionKernels&, const ConvRequantizeCall&, std::vector<Scratch>& packed);
  void run(Tensor x, Tensor residual, Tensor y) override;

 private:
  struct Item {  // what is computed at once: a band of rows of an image, or several whole images
    int64_t image, images, row, rows;
  };
  void cut(const ContractionKernels&);
  void pack_weights(const Requantization&, Tensor weights, Tensor residual, DType y);
  void keep_rounding(const Requantization&, Tensor weights, Tensor residual, DType y);
  Item item(int64_t index) const;
  const char* pack(const Item&, Tensor x, char* packed) const;
  void contract(const Item&, int panel, const char* packed, Tensor residual, Tensor y) const;
  int blocks_in(int panel) const {
    return std::min(kernels_.max_blocks, blocks_ - panel % panels_ * kernels_.max_blocks);
  }
  char* packed_weights(int panel) const { return packed_ + block_of(panel) * plan_.phases.front().packed_words * 64; }
  // Of a panel, by its number in all groups.
  int64_t block_of(int panel) const {
    return int64_t{panel / panels_} * blocks_ + panel % panels_ * kernels_.max_blocks;
  }

  const ContractionKernels& kernels_;
  std::vector<Scratch>& scratch_;
  const ConvProblem problem_;
  const Packing& packing_;
  int64_t images_ = 1, rows_ = 1;  // of an item
  GatherPlan plan_;
  std::vector<int32_t> rest_;      // the base table of items that are smaller than the others
  bool in_place_ = false;          // x is read as it lies
  int blocks_ = 0, panels_ = 0;    // blocks and panels of a group
  int64_t bands_ = 1, items_ = 1;  // bands of an image, items of the batch
  int shares_ = 1;                 // parts of all panels, each with work of its own
  int lowest_, highest_;
  Scratch weights_, sums_, doubles_, floats_;
  char* packed_ = nullptr;                                         // weights
  int32_t *start_ = nullptr, *least_ = nullptr, *most_ = nullptr;  // by lane, as the panels lie
  double *factor_ = nullptr, *residual_factor_ = nullptr;
  float *short_factor_ = nullptr, *short_residual_factor_ = nullptr;
  std::vector<bool> in_floats_;  // by panel
};

}  // namespace octet::cpu
