// Convolution by tables (conv_plan.h) and contraction kernels (contraction.h): codes or real operands, any instruction
// set.
#pragma once
#include <array>
#include <map>
#include <vector>

#include "kernels/cpu/contraction.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/scratch.h"

namespace octet::cpu {

class TableConvolution final : public Convolution {
 public:
  // depthwise: kernels for the problems that are, or null.
  TableConvolution(const ContractionKernels& kernels, const ContractionKernels* depthwise, int threads);
  void forward(const ConvForwardCall&) override;
  void backward_data(const ConvBackwardDataCall&) override;
  void backward_weight(const ConvBackwardWeightCall&) override;
  size_t scratch_bytes() const override;

 private:
  using Key = std::array<int64_t, 17>;
  static Key key_of(const ConvProblem&);
  class GatherJob;
  class WeightJob;
  // to (+)= the plan's gather of `from` with the weights, for one or more groups of images. moments: of each, or none.
  void gather(const ContractionKernels&, const GatherPlan&, QTensor from, QTensor w, Into to, std::span<const Moments>);
  void backward_weight_depthwise(const ConvBackwardWeightCall&);
  const ContractionKernels& kernels_for(const ConvProblem& p) const {
    return depthwise_ != nullptr && is_depthwise(p) ? *depthwise_ : kernels_;
  }
  void pack_images(const ContractionKernels&, const GatherPlan&, Tensor from, int64_t item, char* packed) const;
  void pack_planes(const WeightGradientPlan&, Tensor x, int64_t item, char* packed) const;
  void spread_rows(const WeightGradientPlan&, const char* dy, int64_t item, char* spread) const;
  int blocks_of(int64_t lanes) const { return static_cast<int>((lanes + block_lanes - 1) / block_lanes); }

  const ContractionKernels& kernels_;
  const ContractionKernels* depthwise_;
  const int threads_;
  const GatherPlan& forward_plan(const ConvProblem&);
  std::map<Key, GatherPlan> forward_plans_, backward_plans_;
  std::map<Key, WeightGradientPlan> weight_plans_;
  struct Workspace {
    Scratch x, dy, spread;
  };
  std::vector<Workspace> workspaces_;  // one per thread
  Scratch weights_, starts_, moments_, sums_;
};

}  // namespace octet::cpu
