// What is quantized, and how. One file per policy; policies.cpp lists them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "src/config/config.h"

namespace octet {

// What is encoded or rounded. The values are part of the layer ids of random streams, see random_stream().
enum class Role : uint8_t {
  weight = 0,
  activation = 1,
  grad_output = 2,             // gradient of the loss with respect to a convolution's output
  exchange = 3,                // the gradient exchange between ranks, see comm/
  grad_block = 4,              // gradient with respect to a block's output, before the activation's backward
  grad_output_for_weight = 5,  // grad_output as the weight gradient reads it, where a policy rounds it twice
  norm_input = 6,
  positive_activation = 7  // an activation that is never negative
};
// The stream of random bits of one role in one node.
constexpr uint32_t random_stream(int node, Role role) {
  return static_cast<uint32_t>(node) * 8 + static_cast<uint32_t>(role);
}

// A layer's position in the network: many policies keep the first and the last layer in full precision.
struct Position {
  bool first = false, last = false;
};

// What a policy is, as data.
struct PolicyTraits {
  std::string name;
  bool quantizes = true, quantizes_first = false, quantizes_last = false;
  RealConvolution real_convolution = RealConvolution::fixed_order;  // of full-precision layers
  bool needs_clips = false;            // the ClipCoordinator observes grad_output, and holds its clips if Range::held
  bool on_host = false;                // reads and writes tensors itself, so they must lie in the host's memory
  bool rounds_block_gradient = false;  // round_block_gradient() does something
  float loss_scale = 1;                // multiplies the gradient of the loss; update() divides by it
};

// Gradient with respect to a block's output, and what the block's forward left.
struct BlockGradient {
  Tensor gradient;                // f32, changed in place
  Tensor convolved = {};          // f32, the convolution's output
  const float* bias = nullptr;    // (C)
  bool coded_activation = false;  // the block's output was encoded
};

struct UpdateContext {
  SgdProblem sgd;
  bool weight = true;           // of a convolution or linear layer; false: a norm's parameter or a bias
  bool full_precision = false;  // of a layer that the policy does not quantize; never of a norm's parameter
  double progress = 0;          // share of the training that is done
  const float* lr_scale = nullptr;
  RngKey key;
};

class Simulation;

class Policy {
 public:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}
  virtual ~Policy() = default;
  const PolicyTraits& traits() const { return traits_; }
  // Whether this convolution or linear layer computes with rounded operands: codes, or simulated ones.
  bool quantizes(Position layer) const {
    return traits_.quantizes && (!layer.first || traits_.quantizes_first) && (!layer.last || traits_.quantizes_last);
  }

  // Encoding of a weight, of an activation that a quantized layer reads, or of a quantized layer's grad_output. A
  // weight's Range::held without a value is chosen by WeightClips, a gradient's by round_block_gradient().
  virtual Encoding encoding(Role) const = 0;
  // Policies whose numbers are not int8 codes are simulated: null for the others.
  virtual const Simulation* simulation() const { return nullptr; }

  // Sets a weight's initial value, in the host's memory; false: the layer's own is used. fan_in: input channels /
  // groups
  // * kernel area.
  virtual bool initialize(Tensor /*weight*/, int64_t /*fan_in*/, bool /*full_precision*/, const RngKey&) const {
    return false;
  }
  // Factor of a quantized weight's codes beside their scale.
  virtual float weight_gain(int64_t /*fan_in*/) const { return 1; }
  // Rounds the gradient of a block's output in place. Returns the clip that encodes grad_output, where
  // encoding(Role::grad_output) has Range::held and no ClipCoordinator holds its value.
  virtual float round_block_gradient(const BlockGradient&, const RngKey&) const { return 0; }
  virtual void update(Backend& backend, const UpdateContext& context, Tensor w, Tensor gradient,
                      Tensor velocity) const {
    backend.sgd_update(context.sgd, w, gradient, velocity, context.lr_scale);
  }
  // UsageError where a layer of the network does not fit the policy. pixels: of one batch, that a norm sees.
  virtual void check_layer(const std::string& /*layer*/, bool /*norm*/, int64_t /*pixels*/) const {}

 private:
  PolicyTraits traits_;
};

// UsageError names the known policies, and the keys that the chosen one does not read.
std::unique_ptr<Policy> make_policy(const Config&);
std::vector<std::string> policy_names();
// How convolution outputs are kept for the backward pass: config.storage where the policy supports it, else f32.
DType storage_of(const Config&);

constexpr int largest_code(int64_t bits) { return (1 << (bits - 1)) - 1; }

}  // namespace octet
