// The interface of a simulated policy. The numbers of such a policy are not int8 codes. All values stay f32, and the
// operands of a layer are rounded to numbers of the policy ("fake quantization"). Convolutions run in f32.
#pragma once
#include "src/quant/policy.h"

namespace octet {

// A norm's operands, which a policy may round before use. x: (pixels, C), the convolution's output.
struct NormOperands {
  Tensor x;
  float *mean = nullptr, *variance = nullptr, *gamma = nullptr, *beta = nullptr;  // (C) each, copies
  float epsilon = 0;
};

// Fixed properties of a simulated policy. A comment says what holds if the flag is true.
struct SimulationTraits {
  // The weight gradient reads grad_output rounded as Role::grad_output_for_weight. By default it reads the same rounded
  // values as the data gradient.
  bool splits_grad_output = false;
  // The weight gradient reads grad_output unrounded.
  bool unrounded_weight_gradient = false;
  // grad_block is rounded: the first flag is for blocks with a norm, the second for blocks without. grad_block is never
  // rounded in the last layer.
  bool rounds_grad_block_of_norm = false, rounds_grad_block_without_norm = false;
  // A shortcut receives grad_block unrounded.
  bool unrounded_shortcut = false;
  // gradient_through() changes the gradient of an activation.
  bool changes_activation_gradient = false;
  // The backward pass of a norm computes only gamma / deviation * dz; norm_backward() adds the rest.
  bool own_norm = false;
  // The weight of a new batch in the running statistics; 0: the momentum that the network sets.
  float norm_momentum = 0;
};

class Simulation {
 public:
  explicit Simulation(const SimulationTraits& traits) : simulation_traits_(traits) {}
  virtual ~Simulation() = default;
  const SimulationTraits& simulation_traits() const { return simulation_traits_; }

  // Rounds f32 values in place.
  virtual void round(Role, Tensor, const RngKey&) const = 0;
  // The backward pass of round() for Role::weight and Role::activation: changes `gradient` in place. values: before
  // rounding. By default the gradient is unchanged.
  virtual void gradient_through(Role, Tensor /*values*/, Tensor /*gradient*/) const {}
  // The number of clips of grad_output that a layer keeps from one step to the next.
  virtual int64_t carried_clips(int64_t /*channels*/) const { return 0; }
  // Rounds grad_output in place. before: the kept clips, 0 in the first step. now: receives the new clips, whose
  // averages over the ranks are kept for the next step.
  virtual void round_gradient(Role role, Tensor gradient, const RngKey& key, const float* /*before*/,
                              float* /*now*/) const {
    round(role, gradient, key);
  }
  // Rounds a norm's input x in place and replaces the batch's moments. moments: null in evaluation.
  virtual void measure_norm(Tensor /*x*/, const Moments*, float /*epsilon*/, const RngKey&) const {}
  // Rounds the operands of a norm, in training and evaluation.
  virtual void round_norm(const NormOperands&) const {}
  // Completes the gradient d_x of a norm with own_norm. d_gamma, d_beta: (C).
  virtual void norm_backward(const NormOperands&, const float* /*d_gamma*/, const float* /*d_beta*/,
                             Tensor /*d_x*/) const {}

 private:
  SimulationTraits simulation_traits_;
};

}  // namespace octet
