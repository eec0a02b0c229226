// What is quantized, and how. One file per policy.
#pragma once
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "src/config/config.h"

namespace octet {

// Who asks for random bits, and what is being encoded. site = node * 8 + role.
// value_error: the gradient of a block's output, before its activation's backward; error: of the convolution's output;
// weight_error: the same for the weight gradient alone, where a policy rounds it twice. norm_input: what a norm reads.
enum class Role : uint8_t { weight, activation, error, exchange, value_error, weight_error, norm_input };

struct Site {
  int node = 0;
  bool first = false, last = false;  // position in the network: many policies spare the ends
};

// A norm's operands, which a policy may round before they are used: x (pixels, C) is the convolution's output.
struct NormOperands {
  Tensor x;
  float *mean = nullptr, *variance = nullptr, *gamma = nullptr, *beta = nullptr;  // (C) each, copies
  float epsilon = 0;
};

struct UpdateContext {
  SgdProblem sgd;
  bool weight = true;   // of a convolution or linear layer; false: a norm's parameter or a bias
  bool spared = false;  // of a layer that the policy does not quantize; a norm's parameters never are
  double progress = 0;  // share of the training that is done
  const float* lr_scale = nullptr;
  RngKey key;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  // Whether this convolution or linear layer runs on rounded operands: codes, or simulated ones.
  virtual bool quantizes(const Site&) const = 0;
  // Encoding of a weight, of an activation that a quantized layer reads, or of the error of a quantized layer. A
  // weight's clip of Range::held without a value is chosen by WeightClips.
  virtual Encoding encoding(Role) const = 0;
  // Of an activation that is never negative.
  virtual Encoding positive_activation() const { return encoding(Role::activation); }
  // Errors are observed by the ClipCoordinator, and clipped at values it holds if their range is Range::held.
  virtual bool needs_clips() const = 0;
  // The weight gradient reads the error before it is quantized.
  virtual bool real_weight_gradient() const = 0;
  virtual RealConvolution real_convolution() const = 0;

  // -- Policies whose numbers are no int8 codes are simulated: every value stays f32, and what a layer computes with is
  // rounded to the numbers the policy has ("fake quantization"); the products are those of real convolutions.
  virtual bool simulates() const { return false; }
  // Reads and writes tensors itself, so their memory must be the host's.
  virtual bool computes_on_host() const { return simulates(); }
  // Rounds f32 values in place.
  virtual void round(Role, Tensor, const RngKey&) const {}
  // The weight gradient reads the error rounded as Role::weight_error, the data gradient as Role::error.
  virtual bool splits_error() const { return false; }
  // A policy that clips a layer's errors at values of the step before: so many of them, and round() of both errors
  // then. before: those of the last step, 0 in the first; now: to be set, and averaged over ranks for the next step.
  virtual int64_t error_clips(int64_t /*channels*/) const { return 0; }
  virtual void round_error(Role role, Tensor error, const RngKey& key, const float* /*before*/, float* /*now*/) const {
    round(role, error, key);
  }
  // The way of a gradient back through round(Role::weight or activation), in place; `values` are those before rounding.
  // Straight through unless a policy says otherwise.
  virtual void backward(Role, Tensor /*values*/, Tensor /*gradient*/) const {}
  virtual bool changes_backward(Role) const { return false; }
  // A norm of the policy's own: rounds x and replaces the batch's moments (null in evaluation), ...
  virtual void measure_norm(Tensor /*x*/, const Moments*, float /*epsilon*/, const RngKey&) const {}
  // ... rounds what the norm computes with (training and evaluation), ...
  virtual void round_norm(const NormOperands&) const {}
  // ... says how much of the running statistics each batch replaces, where the network has `usual`, ...
  virtual float norm_momentum(float usual) const { return usual; }
  // ... and completes the gradient of x, where the norm's statistics are not the usual ones: frozen_statistics() then
  // makes the backward pass give gamma / deviation * dz alone. d_gamma, d_beta: (C).
  virtual bool frozen_statistics() const { return false; }
  virtual void norm_backward(const NormOperands&, const float* /*d_gamma*/, const float* /*d_beta*/,
                             Tensor /*d_x*/) const {}

  // -- Policies with an update of their own.
  virtual float loss_scale() const { return 1; }  // the loss's gradient is multiplied by it; update() divides
  // Sets a weight's initial value, in the host's memory; false: the layer's own. fan_in: input channels / groups *
  // kernel area; spared: as in UpdateContext.
  virtual bool initialize(Tensor /*weight*/, int64_t /*fan_in*/, bool /*spared*/, const RngKey&) const { return false; }
  // What a quantized weight's codes are multiplied by beside their scale.
  virtual float weight_gain(int64_t /*fan_in*/) const { return 1; }
  // Rounds the gradient of a block's output in place, before the activation's backward. Returns the clip with which
  // encoding(Role::error) encodes what is left of it, if that is of Range::held without a value.
  virtual float round_value_error(Tensor, const RngKey&) const { return 0; }
  virtual bool rounds_value_error(const Site&, bool /*norm*/) const { return false; }
  // true: a shortcut that is added to the norm's output gets the gradient as it was before.
  virtual bool spares_shortcuts() const { return false; }
  // The largest value that passes the activation's backward; above it the clip stops the gradient. 0: no clip.
  virtual float activation_clip() const { return 0; }
  virtual void update(Backend& backend, const UpdateContext& context, Tensor w, Tensor gradient,
                      Tensor velocity) const {
    backend.sgd_update(context.sgd, w, gradient, velocity, context.lr_scale);
  }
  // UsageError where a layer of the network does not fit the policy. pixels: of one batch, that a norm sees.
  virtual void check_layer(const std::string& /*layer*/, bool /*norm*/, int64_t /*pixels*/) const {}
};
std::unique_ptr<Policy> make_policy(const Config&);  // an explicit table

}  // namespace octet
