// The base of all convolution and fully connected nodes: geometry, parameters, statistics and moments.
#pragma once
#include "src/graph/nodes/nodes.h"

namespace octet {

class ConvNode : public NodeOf<ConvOptions> {
 public:
  ConvNode(std::string name, std::vector<Edge> inputs, Edge output, const ConvOptions& options, const Graph& graph)
      : NodeOf(std::move(name), std::move(inputs), output, options),
        policy_(graph.policy()),
        reads_images_(inputs_[0].id == graph.nodes().front()->output().id) {}

  std::string kind() const override;
  std::vector<NodeParam> params() const override;
  Shape output_shape(const std::vector<Shape>& inputs) override;
  bool writes_real() const override { return options_.gives_logits; }
  bool trains() const override { return !options_.frozen; }
  void freeze() override { options_.frozen = true; }
  bool never_negative() const override { return options_.activation != Activation::none; }
  void bind(Parameters&) override;
  Work work(const Memory&) const override;
  const ConvProblem& problem() const { return conv_; }  // of the plan's batch

 protected:
  // Declares parameters, statistics, moments and the values that backward reads, but no slot of the derived class.
  void declare_layer(Declare&, const Encoding& weight);
  Position position() const { return {reads_images_, options_.gives_logits}; }
  const std::string& layer() const { return options_.layer.empty() ? name_ : options_.layer; }
  bool normalizes() const { return !options_.norm.empty(); }
  bool freezes_norm() const { return normalizes() && (options_.frozen || options_.frozen_norm); }
  bool has_residual() const { return inputs_.size() > 1; }
  // The mask of one norm group, if an activation has one and backward needs it.
  Tensor mask(const Step& step, int64_t group = 0) const {
    return mask_.id < 0 || !step.training ? Tensor{} : step.tensor(mask_).images(group, 1);
  }
  int64_t per_sample() const { return conv_.y.elements() / images_; }
  AffineParameters parameters() const {
    return {.gamma = gamma_ ? gamma_->master.f32() : nullptr, .beta = beta_->master.f32()};
  }
  // Nothing for a frozen parameter.
  Into gradient_of(const Param* param) const { return param && !param->frozen ? Parameters::into(*param) : Into{}; }
  void finish_gradient(Param* param) const {
    if (param && !param->frozen) state_->finish_gradient(*param);
  }
  Into residual_gradient(const Step& step) const { return needs_residual_ ? step.into(inputs_[1]) : Into{}; }
  // The moments of one norm group of this rank's batch. After backward the moments of norms are averaged over groups
  // and ranks.
  Moments batch_moments(const Step&, int64_t group = 0) const;
  // The moments that the norm uses: those of the group in training, the running ones in evaluation and if the norm is
  // frozen.
  Moments norm_moments(const Step&, int64_t group = 0) const;
  // Adds the norm's statistics, if they are not frozen. samples: the number for Bessel's correction of the variance.
  void add_running(std::vector<RunningStep>&, int64_t samples, float momentum) const;
  virtual size_t kept_code_bytes(const Memory&) const { return 0; }

  const Policy& policy_;
  ConvProblem conv_;      // of the whole batch
  AffineProblem affine_;  // of one norm group
  int64_t norm_groups_ = 1;
  int64_t images_ = 1;  // of the batch; behind a pool of regions x and y have several rows for each
  bool runs_backward_ = true, needs_dx_ = true, needs_residual_ = false;
  Slot convolved_, grad_output_;  // the convolution's output; the gradient with respect to it
  Slot mask_;                     // where the activation lets the gradient pass, one row for each norm group
  int weight_index_ = -1;
  Param *weight_ = nullptr, *gamma_ = nullptr, *beta_ = nullptr;
  Parameters* state_ = nullptr;

 private:
  std::string param_name(ParamRole) const;  // not of a range
  std::string more_values() const;

  const bool reads_images_;  // the first layer of the network
  int gamma_index_ = -1, beta_index_ = -1, mean_index_ = -1, variance_index_ = -1, moments_index_ = -1;
  Slot extremes_, unshared_moments_;
  Tensor running_mean_, running_variance_;
  float* batch_moments_ = nullptr;
  int64_t moments_of_group_ = 0;
};

// conv() of a simulated policy.
Edge simulated_conv(Graph&, const std::string& name, const std::vector<Edge>& inputs, const ConvOptions&);
// conv() and global_pool() of an integer network.
Edge integer_conv(Graph&, const std::string& name, const std::vector<Edge>& inputs, const ConvOptions&);
Edge integer_mean(Graph&, const std::string& name, Edge x);

}  // namespace octet
