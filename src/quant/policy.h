// The interface of a policy, which defines what is quantized and how. Each policy is one file; policies.cpp lists them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/shared/streams.h"
#include "src/config/config.h"

namespace octet {

// The kinds of values that are encoded or rounded. Each has a stream of random bits in each node, see layer_id_of().
enum class Role : uint8_t {
  weight = 0,
  activation = 1,
  grad_output = 2,               // gradient of the loss with respect to a convolution's output
  exchange = streams::exchange,  // the gradient exchange between ranks, see comm/
  grad_block = 4,                // gradient with respect to a block's output, before the activation's backward
  grad_output_for_weight = 5,    // grad_output as the weight gradient reads it, where a policy rounds it twice
  norm_input = 6,
  positive_activation = 7  // an activation that is never negative
};
static_assert(static_cast<uint32_t>(Role::positive_activation) < streams::roles);
// The id of the random bits of one role in one node.
constexpr uint32_t layer_id_of(int node, Role role) { return streams::of_node(node, static_cast<uint32_t>(role)); }

// A layer's position in the network: many policies keep the first and the last layer in full precision.
struct Position {
  bool first = false, last = false;
};

// The fixed properties of a policy.
struct PolicyTraits {
  std::string name;
  bool quantizes = true, quantizes_first = false, quantizes_last = false;
  RealConvolution real_convolution = RealConvolution::fixed_order;  // how full-precision layers convolve
  bool needs_clips = false;            // the ClipCoordinator observes grad_output, and gives the clips of Range::held
  bool holds_ranges = false;           // activations have Range::held without a value: ActivationRanges gives it
  bool on_host = false;                // reads and writes tensors itself, so they must lie in the host's memory
  bool rounds_block_gradient = false;  // the policy overrides round_block_gradient()
  float loss_scale = 1;                // multiplies the gradient of the loss; update() divides by the same
};

// The gradient with respect to a block's output, and results of the block's forward.
struct BlockGradient {
  Tensor gradient;                // f32, changed in place
  Tensor convolved = {};          // f32, the convolution's output
  const float* bias = nullptr;    // (C)
  bool coded_activation = false;  // the block's output was encoded
};

struct UpdateContext {
  SgdProblem sgd;
  bool weight = true;           // the weight of a convolution or linear layer; false: the weight of a norm, or a bias
  bool full_precision = false;  // the layer is not quantized; always false for norms
  double progress = 0;          // completed share of the training, 0 to 1
  const float* lr_scale = nullptr;
  RngKey key;
};

class Simulation;
struct IntegerLayers;

class Policy {
 public:
  explicit Policy(PolicyTraits traits) : traits_(std::move(traits)) {}
  virtual ~Policy() = default;
  const PolicyTraits& traits() const { return traits_; }
  // Whether this convolution or linear layer computes with rounded operands, as codes or simulated.
  bool quantizes(Position layer) const {
    return traits_.quantizes && (!layer.first || traits_.quantizes_first) && (!layer.last || traits_.quantizes_last);
  }

  // The encoding of a weight, of an activation that a quantized layer reads, or of a quantized layer's grad_output. If
  // it has Range::held without a value, the clip is chosen elsewhere. WeightClips chooses the clip of a weight, and
  // ActivationRanges that of an activation. The ClipCoordinator chooses the clip of a gradient, or
  // round_block_gradient() if there is no ClipCoordinator.
  virtual Encoding encoding(Role) const = 0;
  // The simulation, if the policy's numbers are not int8 codes; null for the other policies.
  virtual const Simulation* simulation() const { return nullptr; }
  // Whether all that takes time runs in loops of the backend, see Backend::loops().
  bool computes_in_own_loops() const {
    return simulation() == nullptr && traits_.real_convolution != RealConvolution::library && !traits_.on_host;
  }
  // The constants of an integer network, whose layers compute with nothing else; null for policies that train.
  virtual const IntegerLayers* integers() const { return nullptr; }

  // Sets the initial values of a weight, in host memory. Returns false to keep the layer's initialization. fan_in:
  // kernel area times input channels / groups.
  virtual bool initialize(Tensor /*weight*/, int64_t /*fan_in*/, bool /*full_precision*/, const RngKey&) const {
    return false;
  }
  // An extra factor by which the scale of a quantized weight's codes is multiplied.
  virtual float weight_gain(int64_t /*fan_in*/) const { return 1; }
  // Rounds the gradient with respect to a block's output, in place. Returns the clip of grad_output, which is
  // used if encoding(Role::grad_output) has Range::held and there is no ClipCoordinator.
  virtual float round_block_gradient(const BlockGradient&, const RngKey&) const { return 0; }
  // The step that updates a parameter. None: the policy has updated it, in host memory.
  virtual std::optional<SgdStep> update(const UpdateContext& context, Tensor w, Tensor gradient,
                                        Tensor velocity) const {
    return SgdStep{context.sgd, w, gradient, velocity, context.lr_scale};
  }
  // UsageError: the policy does not support this layer. pixels: N * H * W of the layer's output.
  virtual void check_layer(const std::string& /*layer*/, bool /*norm*/, int64_t /*pixels*/) const {}

 private:
  PolicyTraits traits_;
};

// UsageError: the policy is unknown, or the configuration sets a key that the policy does not read.
std::unique_ptr<Policy> make_policy(const Config&);
std::vector<std::string> policy_names();
// The type of convolution outputs kept for backward: config.storage if the policy supports it, else f32.
DType storage_of(const Config&);

constexpr int largest_code(int64_t bits) { return (1 << (bits - 1)) - 1; }

}  // namespace octet
