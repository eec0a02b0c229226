// y = encode(activation(norm(conv(x)) + residual)), forward and backward, for every convolution and linear layer. The
// policy decides whether the layer multiplies codes, so no network needs an int8 variant.
#include "kernels/shared/checks.h"
#include "kernels/shared/sums.h"
#include "src/graph/nodes/conv_node.h"

namespace octet {
namespace {

class ConvBlock final : public ConvNode {
 public:
  using ConvNode::ConvNode;

  bool reads_real(const Policy&, Edge edge) const override { return edge.id == inputs_[0].id && !quantized(); }

  void declare(Declare& d) override {
    const bool codes = quantized();
    if (codes) check_sums(d);
    REQUIRE(d.storage() == DType::f32 || !policy_.traits().rounds_block_gradient, "store f32 between its roundings",
            "policy ", policy_.traits().name, " with ", name_of(d.storage()), " storage");
    declare_layer(d, codes ? policy_.encoding(Role::weight) : Encoding{});
    encode_y_ = d.encoding(output_);
    if (codes) encode_gradient_ = policy_.encoding(Role::grad_output);
    if (d.storage() == DType::s8 && !options_.gives_logits) {
      convolved_ = d.keep(conv_.y, DType::bf16, Need::forward);
      kept_codes_ = d.keep(conv_.y, DType::s8, Need::both);
      kept_units_ = d.keep({1, 1, 2, conv_.y.c}, DType::f32, Need::both);
    } else {
      convolved_ = d.keep(conv_.y, options_.gives_logits ? DType::f32 : d.storage(), Need::both);
    }
    grad_output_ = d.keep(conv_.y, codes ? DType::s8 : DType::f32, Need::backward);
    if (codes) gradient_scale_ = d.keep({1, 1, 1, 1}, DType::f32, Need::backward);
    if (codes && policy_.traits().needs_clips) clip_layer_ = d.clip_layer(name_, weight_index_);
  }

  void forward(Step& step) override {
    const QTensor y = step.value(output_);
    const QTensor residual = has_residual() ? step.value(inputs_[1]) : QTensor{};
    const Convolved convolved = this->convolved(step);
    {
      Timed timed(step.times, Phase::forward);
      step.backend.conv_forward(conv_, step.value(inputs_[0]), weight_->operand(), convolved.real, batch_moments(step));
    }
    Timed timed(step.times, Phase::passes);
    step.backend.affine_forward(affine_, convolved, norm_moments(step), parameters(), residual, encode_y_,
                                step.key(index_, Role::activation, per_sample()), y);
  }

  void backward(Step& step) override {
    const QTensor grad_output = backward_affine(step);
    {
      Timed timed(step.times, Phase::backward_weight);
      step.backend.conv_backward_weight(conv_, step.value(inputs_[0]), grad_output, {weight_->gradient});
    }
    if (!needs_dx_) return;
    Timed timed(step.times, Phase::backward_data);
    step.backend.conv_backward_data(conv_, grad_output, weight_->operand(), step.into(inputs_[0]));
  }

  void update_statistics(Step& step) override { update_running(step, conv_.y.pixels(), options_.momentum); }

  // The convolution's output, or its channel means if only codes of it are kept.
  Tensor watched(const Step& step) const override {
    if (!keeps_codes()) return step.tensor(convolved_);
    return {batch_moments(step).mean, {1, 1, 1, conv_.y.c}, DType::f32};
  }

 private:
  bool quantized() const { return policy_.quantizes(position()); }
  bool keeps_codes() const { return kept_codes_.id >= 0; }
  size_t kept_code_bytes(const Memory& memory) const override {
    return keeps_codes() ? memory.slots[size_t(kept_codes_.id)].bytes() : 0;
  }

  // One int32 must hold each sum of the forward pass and of the data gradient.
  void check_sums(Declare& d) const {
    REQUIRE(d.encoding(inputs_[0]).quantized(), "let the policy quantize all readers of that value or none", "'", name_,
            "' is quantized, but another layer reads the same value real");
    const int64_t forward_sum = int64_t{conv_.kernel_h} * conv_.kernel_w * (conv_.x.c / conv_.groups);
    const int64_t backward_sum = std::min<int64_t>(conv_.kernel_h, conv_.y.h) *
                                 std::min<int64_t>(conv_.kernel_w, conv_.y.w) * (conv_.y.c / conv_.groups);
    const bool fits =
        forward_sum <= products_per_sum(d.encoding(inputs_[0]).dtype) && backward_sum <= products_per_sum(DType::s8);
    REQUIRE_USAGE(fits, "use smaller images, fewer classes, or policy.quantize_last: false", "'", name_, "' sums ",
                  std::max(forward_sum, backward_sum), " products, more than an int32 surely holds");
    if (d.training()) check_weight_gradient(conv_, d.encoding(inputs_[0]).dtype, "'" + name_ + "'");
  }

  // Evaluation writes no codes, since only backward reads them.
  Convolved convolved(const Step& step) const {
    const Tensor real = step.tensor(convolved_);
    if (!keeps_codes() || !step.training) return real;
    float* const units = step.tensor(kept_units_).f32();
    return {real, step.tensor(kept_codes_), units, units + conv_.y.c};
  }

  // Computes the gradient with respect to the convolution's output, as codes or as f32 values.
  QTensor backward_affine(Step& step) {
    Timed timed(step.times, Phase::passes);
    QTensor grad_output{step.tensor(grad_output_)};
    Encoding encoding = encode_gradient_;
    if (encoding.quantized()) grad_output.scale = step.tensor(gradient_scale_).f32();
    const QTensor residual = masks_sum() ? step.value(inputs_[1]) : QTensor{};
    const Tensor dy = step.gradient(output_);
    const Convolved convolved = this->convolved(step);
    const Moments moments = batch_moments(step);
    if (policy_.traits().rounds_block_gradient)
      block_clip_ = policy_.round_block_gradient({dy, convolved.real, beta_->master.f32(), encode_y_.quantized()},
                                                 step.key(index_, Role::grad_block, per_sample()));
    const RngKey key = step.key(index_, Role::grad_output, per_sample());
    Probe probe;
    if (clip_layer_ >= 0) {
      if (encoding.range == Range::held) encoding.held = step.clips->clip(clip_layer_);
      probe = step.clips->probe(clip_layer_, conv_.y.elements());
      if (encoding.held && !step.clips->known(clip_layer_)) {  // measure before quantizing
        step.backend.affine_backward(affine_, convolved, moments, parameters(), residual, dy, {}, {}, {}, encoding, key,
                                     {}, probe);
        step.clips->prime(clip_layer_);
      }
    } else if (encoding.range == Range::held) {
      encoding.held = &block_clip_;
    }
    step.backend.affine_backward(affine_, convolved, moments, parameters(), residual, dy, gamma_gradient(),
                                 beta_gradient(), has_residual() ? step.into(inputs_[1]) : Into{}, encoding, key,
                                 grad_output, probe);
    return grad_output;
  }

  Encoding encode_y_, encode_gradient_;
  Slot kept_codes_, kept_units_, gradient_scale_;
  int clip_layer_ = -1;
  float block_clip_ = 0;  // if the policy rounds the block's gradient: the clip that encodes grad_output
};

}  // namespace

std::unique_ptr<Node> make_conv_block(const Policy& policy, std::string name, std::vector<Edge> inputs, Edge output,
                                      const ConvBlockOptions& options) {
  if (policy.simulation())
    return make_simulated_conv_block(policy, std::move(name), std::move(inputs), output, options);
  return std::make_unique<ConvBlock>(policy, std::move(name), std::move(inputs), output, options);
}

}  // namespace octet
