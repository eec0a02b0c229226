// What a simulated policy (Policy::simulates) does inside a ConvBlock: operands and norms rounded in f32. Only the
// policy knows how; this keeps the rounded copies and calls it at the right moments.
#pragma once
#include "src/graph/node.h"

namespace octet {

class Simulation {
 public:
  explicit operator bool() const { return policy_ != nullptr; }
  // operands: input, weight and error are rounded (not in layers that the policy spares). layer: its name.
  void declare(Declare& d, const std::string& layer, const ConvProblem& conv, bool operands, bool norm, bool needs_dx);
  void bind(Bound&);
  void commit() const;  // after a step that counts, and after the ranks' averages

  // Forward: rounded copies, which backward() reads again.
  QTensor input(Step&, QTensor x, const RngKey&) const;
  QTensor weight(Step&, Tensor master, const RngKey&) const;
  // Rounds the convolution's output and the copies of the norm's operands, which `moments` and `parameters` are made to
  // name. measured: the batch's moments, which a norm of the policy's own replaces; null in evaluation.
  void norm(Step&, const AffineProblem&, Tensor x, const Moments* measured, Moments& moments,
            AffineParameters& parameters, const RngKey&) const;

  // Backward: after affine_backward wrote `error`.
  void norm_backward(Step&, const AffineProblem&, Tensor x, const Tensor& d_gamma, const Tensor& d_beta,
                     Tensor error) const;
  // The gradients of weight and data from the error, rounded here. x, master: before rounding; dx may be empty.
  void backward(Step&, const ConvProblem&, QTensor x, Tensor master, Tensor error, Into dw, Into dx,
                const RngKey&) const;
  // The operands that norm() left, for affine_backward.
  void norm_operands(Step&, int64_t channels, Moments&, AffineParameters&) const;

 private:
  void round_error(Role, Tensor error, const RngKey&) const;

  const Policy* policy_ = nullptr;
  int64_t error_clips_ = 0;
  int clips_index_ = -1, next_clips_index_ = -1;
  float *clips_ = nullptr, *next_clips_ = nullptr;  // (error_clips_) each
  bool operands_ = false, norm_ = false;
  Slot x_, w_, dx_, weight_error_, norm_values_;
};

}  // namespace octet
