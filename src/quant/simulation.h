// Policies whose numbers are not int8 codes are simulated: every value stays f32, and what a layer computes with is
// rounded to the numbers that the policy has ("fake quantization"). The products are those of f32 convolutions.
#pragma once
#include "src/quant/policy.h"

namespace octet {

// A norm's operands, which a policy may round before they are used: x (pixels, C) is the convolution's output.
struct NormOperands {
  Tensor x;
  float *mean = nullptr, *variance = nullptr, *gamma = nullptr, *beta = nullptr;  // (C) each, copies
  float epsilon = 0;
};

struct SimulationTraits {
  // The weight gradient reads grad_output rounded as Role::grad_output_for_weight, ...
  bool splits_grad_output = false;
  // ... or unrounded. By default it reads what the data gradient reads.
  bool unrounded_weight_gradient = false;
  // grad_block is rounded in blocks with a norm, and in those without; never in the last layer.
  bool rounds_grad_block_of_norm = false, rounds_grad_block_without_norm = false;
  // A shortcut receives grad_block unrounded.
  bool unrounded_shortcut = false;
  // gradient_through() changes the gradient of an activation.
  bool changes_activation_gradient = false;
  // The backward pass of a norm gives gamma / deviation * dz alone, and norm_backward() completes it.
  bool own_norm = false;
  // Share of the running statistics that each batch replaces; 0: the network's own.
  float norm_momentum = 0;
};

class Simulation {
 public:
  explicit Simulation(const SimulationTraits& traits) : simulation_traits_(traits) {}
  virtual ~Simulation() = default;
  const SimulationTraits& simulation_traits() const { return simulation_traits_; }

  // Rounds f32 values in place.
  virtual void round(Role, Tensor, const RngKey&) const = 0;
  // The gradient of round(Role::weight or activation), in place; `values` are those before rounding. By default the
  // gradient passes unchanged.
  virtual void gradient_through(Role, Tensor /*values*/, Tensor /*gradient*/) const {}
  // Number of clips of grad_output that a layer carries over from the step before; 0: none.
  virtual int64_t carried_clips(int64_t /*channels*/) const { return 0; }
  // Rounds grad_output in place. before: the carried clips, 0 in the first step; now: the new ones, which are averaged
  // over ranks for the next step.
  virtual void round_gradient(Role role, Tensor gradient, const RngKey& key, const float* /*before*/,
                              float* /*now*/) const {
    round(role, gradient, key);
  }
  // Rounds a norm's input x and replaces the batch's moments, which are null in evaluation.
  virtual void measure_norm(Tensor /*x*/, const Moments*, float /*epsilon*/, const RngKey&) const {}
  // Rounds what a norm computes with, in training and evaluation.
  virtual void round_norm(const NormOperands&) const {}
  // Completes the gradient d_x of a norm of the policy's own. d_gamma, d_beta: (C).
  virtual void norm_backward(const NormOperands&, const float* /*d_gamma*/, const float* /*d_beta*/,
                             Tensor /*d_x*/) const {}

 private:
  SimulationTraits simulation_traits_;
};

}  // namespace octet
