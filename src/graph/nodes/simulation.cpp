#include "src/graph/nodes/simulation.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

void Simulation::declare(Declare& d, const std::string& layer, const ConvProblem& conv, bool operands, bool norm,
                         bool needs_dx) {
  policy_ = &d.policy();
  operands_ = operands;
  norm_ = norm;
  if (norm) norm_values_ = d.keep({1, 1, 4, conv.y.c}, DType::f32, Need::both);
  if (!operands) return;
  error_clips_ = policy_->error_clips(conv.y.c);
  if (error_clips_ > 0) {
    clips_index_ = d.statistic(layer + ".error_clips", error_clips_, 0, true);
    next_clips_index_ = d.shared_moments((error_clips_ + 1) / 2);
  }
  x_ = d.keep(conv.x, DType::f32, Need::both);
  w_ = d.keep(conv.weight(), DType::f32, Need::both);
  if (policy_->splits_error()) weight_error_ = d.keep(conv.y, DType::f32, Need::backward);
  if (needs_dx && policy_->changes_backward(Role::activation)) dx_ = d.keep(conv.x, DType::f32, Need::backward);
}

void Simulation::bind(Bound& b) {
  if (error_clips_ == 0) return;
  clips_ = b.statistic(clips_index_).tensor.f32();
  next_clips_ = b.shared_moments(next_clips_index_);
}

void Simulation::commit() const { std::copy_n(next_clips_, error_clips_, clips_); }

void Simulation::round_error(Role role, Tensor error, const RngKey& key) const {
  policy_->round_error(role, error, key, clips_, next_clips_);
}

QTensor Simulation::input(Step& step, QTensor x, const RngKey& key) const {
  if (!operands_) return x;
  const Tensor rounded = copied(x.values, step.tensor(x_));
  policy_->round(Role::activation, rounded, key);
  return {rounded};
}

QTensor Simulation::weight(Step& step, Tensor master, const RngKey& key) const {
  if (!operands_) return {master};
  const Tensor rounded = copied(master, step.tensor(w_));
  policy_->round(Role::weight, rounded, key);
  return {rounded};
}

void Simulation::norm_operands(Step& step, int64_t channels, Moments& moments, AffineParameters& parameters) const {
  if (!norm_) return;
  float* const values = step.tensor(norm_values_).f32();
  moments.mean = values;
  moments.variance = values + channels;
  parameters.gamma = values + 2 * channels;
  parameters.beta = values + 3 * channels;
}

void Simulation::norm(Step& step, const AffineProblem& affine, Tensor x, const Moments* measured, Moments& moments,
                      AffineParameters& parameters, const RngKey& key) const {
  if (!norm_) return;
  const int64_t channels = affine.shape.c;
  policy_->measure_norm(x, measured, affine.epsilon, key);
  const float* const from[] = {moments.mean, moments.variance, parameters.gamma, parameters.beta};
  float* const values = step.tensor(norm_values_).f32();
  for (int64_t i = 0; i < 4; ++i) std::copy_n(from[i], channels, values + i * channels);
  norm_operands(step, channels, moments, parameters);
  policy_->round_norm({x, values, values + channels, values + 2 * channels, values + 3 * channels, affine.epsilon});
}

void Simulation::norm_backward(Step& step, const AffineProblem& affine, Tensor x, const Tensor& d_gamma,
                               const Tensor& d_beta, Tensor error) const {
  if (!norm_) return;
  const int64_t channels = affine.shape.c;
  float* const values = step.tensor(norm_values_).f32();
  policy_->norm_backward({x, values, values + channels, values + 2 * channels, values + 3 * channels, affine.epsilon},
                         d_gamma.f32(), d_beta.f32(), error);
}

void Simulation::backward(Step& step, const ConvProblem& conv, QTensor x, Tensor master, Tensor error, Into dw, Into dx,
                          const RngKey& key) const {
  const QTensor rounded_x = operands_ ? QTensor{step.tensor(x_)} : x;
  const QTensor rounded_w = operands_ ? QTensor{step.tensor(w_)} : QTensor{master};
  const bool split = operands_ && policy_->splits_error();
  const bool later = split || policy_->real_weight_gradient();
  std::copy_n(clips_, error_clips_, next_clips_);  // where one error alone is rounded
  if (operands_ && !later) round_error(Role::error, error, key);
  Tensor weight_error = error;
  if (split) {
    weight_error = copied(error, step.tensor(weight_error_));
    RngKey own = key;
    own.site += uint32_t(Role::weight_error) - uint32_t(Role::error);
    round_error(Role::weight_error, weight_error, own);
  }
  {
    Timed timed(step.times, Phase::backward_weight);
    step.backend.conv_backward_weight(conv, rounded_x, {weight_error}, dw);
    if (operands_) policy_->backward(Role::weight, master, dw.tensor);
  }
  if (!dx) return;
  Timed timed(step.times, Phase::backward_data);
  if (operands_ && later) round_error(Role::error, error, key);
  if (dx_.id < 0) {
    step.backend.conv_backward_data(conv, {error}, rounded_w, dx);
    return;
  }
  const Tensor own = step.tensor(dx_);
  step.backend.conv_backward_data(conv, {error}, rounded_w, {own});
  policy_->backward(Role::activation, x.values, own);
  deliver(own, dx);
}

}  // namespace octet
