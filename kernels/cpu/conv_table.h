// Convolution by tables (conv_plan.h) and contraction kernels (contraction.h): codes or real operands, any instruction
// set.
#pragma once
#include <array>
#include <map>
#include <vector>

#include "kernels/cpu/contraction.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace octet::cpu {

// How many pixels' sums int32 surely holds, if none is beyond `largest`; the squares of half of the lanes fit into
// uint64, too.
int64_t moment_chunk(int64_t largest);

class TableConvolution final : public Convolution {
 public:
  // depthwise: kernels for the problems that are, or null.
  // digits: kernels for images of bytes, or null.
  TableConvolution(const ContractionKernels& kernels, const ContractionKernels* depthwise, Threads,
                   const ContractionKernels* digits = nullptr);
  void forward(const ConvForwardCall&) override;
  void backward_data(const ConvBackwardDataCall&) override;
  void backward_weight(const ConvBackwardWeightCall&) override;
  void forward(const PixelForwardCall&) override;
  void backward_weight(const PixelBackwardWeightCall&) override;
  size_t scratch_bytes() const override;

 private:
  using Key = std::array<int64_t, 17>;
  static Key key_of(const ConvProblem&);
  class GatherJob;
  class WeightJob;
  class PixelGradient;
  // What a gather multiplies with.
  struct Weights {
    const void* values;
    float scale = 1;                // of the sums
    const float* factor = nullptr;  // of digits: of the sums of each channel, for whole blocks of lanes
    int64_t chunk = 1;              // see ExactSums
  };
  // to (+)= the plan's gather of `from` with the weights, for one or more groups of images. moments: of each, or none.
  void gather(const ContractionKernels&, const GatherPlan&, Tensor from, const Weights&, Into to,
              std::span<const Moments>);
  void backward_weight_depthwise(const ConvBackwardWeightCall&);
  static Weights weights_of(const QTensor& from, const QTensor& w);
  const ContractionKernels& digits() const;
  const ContractionKernels& kernels_for(const ConvProblem& p) const {
    return depthwise_ != nullptr && is_depthwise(p) ? *depthwise_ : kernels_;
  }
  void pack_images(const ContractionKernels&, const GatherPlan&, Tensor from, int64_t item, char* packed) const;
  // Some channels of an item.
  void pack_planes(const ContractionKernels&, const WeightGradientPlan&, Tensor x, int64_t item, char* packed,
                   int64_t channel, int64_t channels) const;
  void spread_rows(const WeightGradientPlan&, const char* dy, int64_t item, char* spread) const;
  int blocks_of(int64_t lanes) const { return static_cast<int>((lanes + block_lanes - 1) / block_lanes); }

  const ContractionKernels& kernels_;
  const ContractionKernels *depthwise_, *digits_;
  const Threads threads_;
  const GatherPlan& forward_plan(const ConvProblem&);
  std::map<Key, GatherPlan> forward_plans_, backward_plans_, pixel_plans_;
  std::map<Key, WeightGradientPlan> weight_plans_, pixel_weight_plans_;
  struct Workspace {
    Scratch x, dy, spread, sums;
  };
  std::vector<Workspace> workspaces_;  // one per thread
  Workspace& workspace_of(const Team& team) { return workspaces_[static_cast<size_t>(team.thread())]; }
  Scratch weights_, starts_, moments_, sums_, packed_, even_;
  Scratch pixel_weights_, factors_;  // of images of bytes
};

}  // namespace octet::cpu
