// The convolution block of a simulated policy. Operands, gradients and norms are rounded copies in f32. The policy
// defines how a value is rounded; this node decides when.
#include <algorithm>
#include <cstring>

#include "src/graph/nodes/conv_node.h"
#include "src/quant/simulation.h"

namespace octet {
namespace {

Tensor copied(Tensor from, Tensor to) {
  std::memcpy(to.data, from.data, from.bytes());
  return to;
}

void deliver(Tensor from, Into to) {
  const float* const values = from.f32();
  float* const out = to.tensor.f32();
  const int64_t count = from.elements();
#pragma omp parallel for
  for (int64_t i = 0; i < count; ++i) out[i] = to.add ? out[i] + values[i] : values[i];
}

class SimulatedConvBlock final : public ConvNode {
 public:
  using ConvNode::ConvNode;

  bool reads_real(const Policy&, Edge edge) const override { return edge.id == inputs_[0].id; }

  void declare(Declare& d) override {
    REQUIRE(d.storage() == DType::f32, "store f32 between its roundings", "policy ", policy_.traits().name, " with ",
            name_of(d.storage()), " storage");
    declare_layer(d, {});
    REQUIRE_USAGE(norm_groups_ == 1, "set train.norm_group: 0, or policy.name to unified_int8 or fp32", "policy ",
                  policy_.traits().name, " takes the statistics of a norm from all images of a rank");
    REQUIRE_USAGE(!freezes_norm() || !traits_.own_norm, "set model.norm: batch and model.freeze_stages: 0", "policy ",
                  policy_.traits().name, " has a norm of its own, which cannot be frozen");
    affine_.batch_statistics = !traits_.own_norm && !freezes_norm();
    rounds_operands_ = policy_.quantizes(position());
    rounds_grad_block_ =
        !position().last && (normalizes() ? traits_.rounds_grad_block_of_norm : traits_.rounds_grad_block_without_norm);
    convolved_ = d.keep(conv_.y, DType::f32, Need::both);
    grad_output_ = d.keep(conv_.y, DType::f32, Need::backward);
    if (normalizes()) norm_values_ = d.keep({1, 1, 4, conv_.y.c}, DType::f32, Need::both);
    if (!rounds_operands_) return;
    x_ = d.keep(conv_.x, DType::f32, Need::both);
    w_ = d.keep(conv_.weight(), DType::f32, Need::both);
    if (!options_.layer.empty()) dw_ = d.keep(conv_.weight(), DType::f32, Need::backward);
    if (traits_.splits_grad_output) gradient_for_weight_ = d.keep(conv_.y, DType::f32, Need::backward);
    if (needs_dx_ && traits_.changes_activation_gradient) dx_ = d.keep(conv_.x, DType::f32, Need::backward);
    clips_ = simulation_.carried_clips(conv_.y.c);
    if (clips_ == 0) return;
    const std::string clips = name_ + ".error_clips";
    clips_index_ = d.parameters().declare_statistic(
        {.name = clips, .tensor = {nullptr, {1, 1, 1, clips_}, DType::f32}, .training_only = true});
    next_clips_index_ = d.parameters().declare_moments(clips, (clips_ + 1) / 2);
  }

  void bind(Parameters& state) override {
    ConvNode::bind(state);
    if (clips_ == 0) return;
    carried_clips_ = state.statistic(clips_index_).f32();
    next_clips_ = state.moments(next_clips_index_);
  }

  void forward(Step& step) override {
    const Tensor x = step.value(inputs_[0]).values, convolved = step.tensor(convolved_);
    if (rounds_operands_) {
      simulation_.round(Role::activation, copied(x, step.tensor(x_)),
                        step.key(index_, Role::activation, conv_.x.elements() / images_));
      simulation_.round(Role::weight, copied(weight_->master, step.tensor(w_)), step.key(index_, Role::weight, 0));
    }
    {
      Timed timed(step.times, Phase::forward);
      const Moments measured = batch_moments(step);
      step.backend.conv_forward({conv_, x_operand(step), w_operand(step), convolved, {&measured, 1}});
    }
    Timed timed(step.times, Phase::passes);
    Moments moments = norm_moments(step);
    AffineParameters affine = parameters();
    if (normalizes()) round_norm(step, convolved, moments, affine);
    step.backend.affine_forward({.problem = affine_,
                                 .x = convolved,
                                 .moments = moments,
                                 .parameters = affine,
                                 .residual = has_residual() ? step.value(inputs_[1]) : QTensor{},
                                 .y = step.value(output_),
                                 .mask = mask(step)});
  }

  void backward(Step& step) override {
    const Tensor grad_output = backward_affine(step);
    const RngKey key = step.key(index_, Role::grad_output, per_sample());
    std::copy_n(carried_clips_, clips_, next_clips_);  // in case only one of the two gradients is rounded
    const bool after_weight = traits_.splits_grad_output || traits_.unrounded_weight_gradient;
    if (rounds_operands_ && !after_weight) round_gradient(Role::grad_output, grad_output, key);
    backward_weight(step, grad_output);
    if (!needs_dx_) return;
    Timed timed(step.times, Phase::backward_data);
    if (rounds_operands_ && after_weight) round_gradient(Role::grad_output, grad_output, key);
    const Into into = step.into(inputs_[0]);
    const Into dx = dx_.id < 0 ? into : Into{step.tensor(dx_)};
    step.backend.conv_backward_data({conv_, {grad_output}, w_operand(step), dx});
    if (dx_.id < 0) return;
    simulation_.gradient_through(Role::activation, step.value(inputs_[0]).values, dx.tensor);
    deliver(dx.tensor, into);
  }

  void update_statistics(Step&, std::vector<RunningStep>& running) override {
    std::copy_n(next_clips_, clips_, carried_clips_);
    // Bessel's correction is for a sample's variance. A policy with its own norm keeps another statistic.
    add_running(running, traits_.own_norm ? 1 : conv_.y.pixels(),
                traits_.norm_momentum > 0 ? traits_.norm_momentum : options_.momentum);
  }

  Tensor watched(const Step& step) const override { return step.tensor(convolved_); }

 private:
  QTensor x_operand(const Step& step) const {
    return rounds_operands_ ? QTensor{step.tensor(x_)} : step.value(inputs_[0]);
  }
  QTensor w_operand(const Step& step) const { return {rounds_operands_ ? step.tensor(w_) : weight_->master}; }
  void round_gradient(Role role, Tensor gradient, const RngKey& key) const {
    simulation_.round_gradient(role, gradient, key, carried_clips_, next_clips_);
  }

  // The slots with copies of the norm's operands: mean, variance, gamma, beta.
  NormOperands norm_operands(const Step& step) const {
    float* const values = step.tensor(norm_values_).f32();
    const int64_t channels = conv_.y.c;
    return {step.tensor(convolved_), values,         values + channels, values + 2 * channels,
            values + 3 * channels,   affine_.epsilon};
  }
  static void use(const NormOperands& rounded, Moments& moments, AffineParameters& affine) {
    moments.mean = rounded.mean, moments.variance = rounded.variance;
    affine = {.gamma = rounded.gamma, .beta = rounded.beta};
  }

  // Rounds the convolution's output and copies of the norm's operands. `moments` and `affine` then point to the copies.
  void round_norm(Step& step, Tensor convolved, Moments& moments, AffineParameters& affine) const {
    const Moments measured = batch_moments(step);
    simulation_.measure_norm(convolved, step.training ? &measured : nullptr, affine_.epsilon,
                             step.key(index_, Role::norm_input, per_sample()));
    const NormOperands rounded = norm_operands(step);
    std::copy_n(moments.mean, conv_.y.c, rounded.mean);
    std::copy_n(moments.variance, conv_.y.c, rounded.variance);
    std::copy_n(affine.gamma, conv_.y.c, rounded.gamma);
    std::copy_n(affine.beta, conv_.y.c, rounded.beta);
    use(rounded, moments, affine);
    simulation_.round_norm(rounded);
  }

  Tensor backward_affine(Step& step) {
    Timed timed(step.times, Phase::passes);
    const Tensor grad_output = step.tensor(grad_output_), dy = step.gradient(output_);
    const Tensor convolved = step.tensor(convolved_);
    Moments moments = batch_moments(step);
    AffineParameters affine = parameters();
    if (normalizes()) use(norm_operands(step), moments, affine);
    AffineBackwardCall call{.problem = affine_,
                            .x = convolved,
                            .moments = moments,
                            .parameters = affine,
                            .mask = mask(step),
                            .dy = dy,
                            .d_residual = residual_gradient(step),
                            .grad_output = {grad_output}};
    if (call.d_residual && traits_.unrounded_shortcut) {
      step.backend.affine_backward(call);
      call.d_residual = {};
    }
    if (rounds_grad_block_) simulation_.round(Role::grad_block, dy, step.key(index_, Role::grad_block, per_sample()));
    call.d_gamma = gradient_of(gamma_), call.d_beta = gradient_of(beta_);
    step.backend.affine_backward(call);
    if (normalizes())
      simulation_.norm_backward(norm_operands(step), call.d_gamma.tensor.f32(), call.d_beta.tensor.f32(), grad_output);
    finish_gradient(gamma_);
    finish_gradient(beta_);
    return grad_output;
  }

  void backward_weight(Step& step, Tensor grad_output) const {
    if (weight_->frozen) return;
    Tensor gradient = grad_output;
    if (rounds_operands_ && traits_.splits_grad_output) {
      gradient = copied(grad_output, step.tensor(gradient_for_weight_));
      round_gradient(Role::grad_output_for_weight, gradient,
                     step.key(index_, Role::grad_output_for_weight, per_sample()));
    }
    Timed timed(step.times, Phase::backward_weight);
    const Into into = gradient_of(weight_), dw = dw_.id < 0 ? into : Into{step.tensor(dw_)};
    step.backend.conv_backward_weight({conv_, x_operand(step), {gradient}, dw});
    if (rounds_operands_) simulation_.gradient_through(Role::weight, weight_->master, dw.tensor);
    if (dw_.id >= 0) deliver(dw.tensor, into);
    finish_gradient(weight_);
  }

  const Simulation& simulation_ = *policy_.simulation();
  const SimulationTraits& traits_ = simulation_.simulation_traits();
  bool rounds_operands_ = false, rounds_grad_block_ = false;
  int64_t clips_ = 0;
  int clips_index_ = -1, next_clips_index_ = -1;
  float *carried_clips_ = nullptr, *next_clips_ = nullptr;  // (clips) each
  Slot x_, w_, dx_, dw_, gradient_for_weight_, norm_values_;
};

}  // namespace

Edge simulated_conv(Graph& graph, const std::string& name, const std::vector<Edge>& inputs,
                    const ConvOptions& options) {
  return graph.add<SimulatedConvBlock>(name, inputs, options, graph);
}

}  // namespace octet
