// y = encode(activation(norm(conv(x)) + residual)), and its backward: the arithmetic of every convolution and linear
// layer. The policy alone decides whether it contracts codes; nobody writes an int8 variant of a network.
#include <fmt/format.h>

#include "kernels/shared/sums.h"
#include "src/graph/nodes/nodes.h"
#include "src/graph/nodes/simulation.h"

namespace octet {
namespace {

class ConvBlock final : public Node {
 public:
  ConvBlock(std::string name, std::vector<Edge> inputs, Edge output, const ConvBlockOptions& options)
      : Node(std::move(name), std::move(inputs), output), options_(options) {}

  std::string kind() const override {
    const std::string stride = options_.stride > 1 ? fmt::format("/{}", options_.stride) : "";
    if (options_.linear) return "linear";
    const bool depthwise = options_.groups > 1 && options_.groups == conv_.x.c;
    return fmt::format("{} {}x{}{}", depthwise ? "depthwise" : "conv", conv_.kernel_h, conv_.kernel_w, stride);
  }

  Shape output_shape(const std::vector<Shape>& inputs) override {
    const Shape& x = inputs[0];
    conv_.x = x;
    conv_.kernel_h = options_.linear ? int(x.h) : options_.kernel.h;
    conv_.kernel_w = options_.linear ? int(x.w) : options_.kernel.w;
    conv_.stride_h = conv_.stride_w = options_.stride;
    conv_.pad_h = options_.pad.h;
    conv_.pad_w = options_.pad.w;
    conv_.dilation_h = conv_.dilation_w = options_.dilation;
    conv_.groups = int(options_.groups);
    REQUIRE(x.c % options_.groups == 0 && options_.out % options_.groups == 0, "make both divisible by the groups", "'",
            name_, "' takes ", x.c, " channels and gives ", options_.out, " in ", options_.groups, " groups");
    conv_.y = {x.n, output_extent(x.h, conv_.kernel_h, options_.stride, conv_.pad_h, options_.dilation),
               output_extent(x.w, conv_.kernel_w, options_.stride, conv_.pad_w, options_.dilation), options_.out};
    REQUIRE(conv_.y.h > 0 && conv_.y.w > 0, "use larger images or a network with fewer strides", "'", name_,
            "' shrinks an image of ", x.h, "x", x.w, " to nothing");
    if (inputs.size() > 1)
      REQUIRE(inputs[1] == conv_.y, "give the shortcut a projection", "'", name_, "' gives ", conv_.y.h, "x", conv_.y.w,
              "x", conv_.y.c, ", its shortcut ", inputs[1].h, "x", inputs[1].w, "x", inputs[1].c);
    return conv_.y;
  }

  bool quantized(const Policy& policy) const override { return policy.quantizes(site()) && !policy.simulates(); }
  bool reads_real(const Policy& policy, Edge edge) const override {
    return edge.id == inputs_[0].id && !quantized(policy);
  }
  bool writes_real() const override { return options_.gives_logits; }
  bool never_negative() const override { return options_.activation != Activation::none; }

  void declare(Declare& d) override {
    const Policy& policy = d.policy();
    const bool codes = quantized(policy);
    REQUIRE(!codes || d.encoding(inputs_[0]).quantized(), "let the policy quantize all readers of that value or none",
            "'", name_, "' is quantized, but another layer reads the same value real");
    // As many products as forward and the data gradient sum for one value.
    const int64_t forward_sum = int64_t{conv_.kernel_h} * conv_.kernel_w * (conv_.x.c / conv_.groups);
    const int64_t backward_sum = std::min<int64_t>(conv_.kernel_h, conv_.y.h) *
                                 std::min<int64_t>(conv_.kernel_w, conv_.y.w) * (conv_.y.c / conv_.groups);
    const bool fits =
        forward_sum <= products_per_sum(d.encoding(inputs_[0]).dtype) && backward_sum <= products_per_sum(DType::s8);
    REQUIRE_USAGE(!codes || fits, "use smaller images, fewer classes, or policy.quantize_last: false", "'", name_,
                  "' sums ", std::max(forward_sum, backward_sum), " products, more than an int32 surely holds");
    const bool normalize = !options_.norm.empty();
    const int64_t channels = conv_.y.c;
    policy_ = &policy;
    policy.check_layer(name_, normalize, conv_.y.pixels());
    rounds_value_error_ = policy.rounds_value_error(site(), normalize);
    REQUIRE(d.storage() == DType::f32 || !(policy.simulates() || rounds_value_error_),
            "store f32 between its roundings", "policy ", policy.name(), " with ", name_of(d.storage()), " storage");
    needs_dx_ = d.needs_gradient(inputs_[0]);
    has_residual_ = inputs_.size() > 1;

    affine_ = {.shape = conv_.y,
               .normalize = normalize,
               .batch_statistics = !policy.frozen_statistics(),
               .epsilon = options_.epsilon,
               .activation = options_.activation};
    encode_y_ = d.encoding(output_);
    if (codes) encode_error_ = policy.encoding(Role::error);
    real_weight_gradient_ = codes && policy.real_weight_gradient();

    const bool spared = !policy.quantizes(site());
    const std::string prefix = normalize ? options_.norm : name_;
    weight_index_ = d.param(name_ + ".weight", options_.linear ? ParamKind::linear_weight : ParamKind::conv_weight,
                            conv_.weight(), options_.init, codes ? policy.encoding(Role::weight) : Encoding{}, spared);
    if (normalize)
      gamma_index_ = d.param(prefix + ".weight", ParamKind::norm_weight, {1, 1, 1, channels}, Init::one, {}, false);
    beta_index_ = d.param(prefix + ".bias", ParamKind::bias, {1, 1, 1, channels}, Init::zero, {}, spared && !normalize);
    if (normalize) {
      mean_index_ = d.statistic(prefix + ".running_mean", channels, 0);
      variance_index_ = d.statistic(prefix + ".running_var", channels, 1);
      moments_index_ = d.shared_moments(channels);
    } else {
      unshared_moments_ = d.keep({1, 1, 2, channels}, DType::f32, Need::both);
    }
    extremes_ = d.keep({1, 1, 2, channels}, DType::f32, Need::forward);
    if (d.storage() == DType::s8 && !options_.gives_logits) {
      convolved_ = d.keep(conv_.y, DType::bf16, Need::forward);
      kept_codes_ = d.keep(conv_.y, DType::s8, Need::both);
      kept_units_ = d.keep({1, 1, 2, channels}, DType::f32, Need::both);
    } else {
      convolved_ = d.keep(conv_.y, options_.gives_logits ? DType::f32 : d.storage(), Need::both);
    }
    error_ = d.keep(conv_.y, codes ? DType::s8 : DType::f32, Need::backward);
    if (codes) error_scale_ = d.keep({1, 1, 1, 1}, DType::f32, Need::backward);
    if (real_weight_gradient_) {
      real_error_ = d.keep(conv_.y, DType::f32, Need::backward);
      real_x_ = d.keep(conv_.x, DType::f32, Need::backward);
    }
    if (policy.simulates()) simulation_.declare(d, name_, conv_, !spared, normalize, needs_dx_);
    if (codes && policy.needs_clips()) clip_layer_ = d.clip_layer(name_, weight_index_);
    d.reads_in_backward(inputs_[0]);
    if (masks_sum()) d.reads_in_backward(inputs_[1]);
  }

  void bind(Bound& b) override {
    weight_ = &b.param(weight_index_);
    gamma_ = gamma_index_ >= 0 ? &b.param(gamma_index_) : nullptr;
    beta_ = &b.param(beta_index_);
    simulation_.bind(b);
    if (affine_.normalize) {
      running_mean_ = b.statistic(mean_index_).tensor;
      running_variance_ = b.statistic(variance_index_).tensor;
      batch_moments_ = b.shared_moments(moments_index_);
    }
  }

  void forward(Step& step) override {
    QTensor x = step.value(inputs_[0]), w = weight_->operand();
    const QTensor y = step.value(output_);
    if (simulation_) {
      x = simulation_.input(step, x, step.key(index_, Role::activation, conv_.x.elements() / conv_.x.n));
      w = simulation_.weight(step, weight_->master, step.key(index_, Role::weight, 0));
    }
    const QTensor residual = has_residual_ ? step.value(inputs_[1]) : QTensor{};
    const Convolved convolved = this->convolved(step);
    Moments moments = batch_moments(step);
    {
      Timed timed(step.times, Phase::forward);
      step.backend.conv_forward(conv_, x, w, convolved.real, moments);
    }
    const Moments measured = moments;
    if (!step.training && affine_.normalize) {
      moments.mean = running_mean_.f32();
      moments.variance = running_variance_.f32();
    }
    Timed timed(step.times, Phase::norm);
    AffineParameters operands = parameters();
    if (simulation_)
      simulation_.norm(step, affine_, convolved.real, step.training ? &measured : nullptr, moments, operands,
                       step.key(index_, Role::norm_input, per_sample()));
    step.backend.affine_forward(affine_, convolved, moments, operands, residual, encode_y_,
                                step.key(index_, Role::activation, per_sample()), y);
  }

  void backward(Step& step) override {
    const QTensor x = step.value(inputs_[0]);
    const QTensor error = backward_affine(step);
    if (simulation_) {
      simulation_.backward(step, conv_, x, weight_->master, error.values, {weight_->gradient},
                           needs_dx_ ? step.into(inputs_[0]) : Into{}, step.key(index_, Role::error, per_sample()));
      return;
    }
    {
      Timed timed(step.times, Phase::backward_weight);
      if (real_weight_gradient_) {
        const Tensor real_x = step.tensor(real_x_);
        step.backend.dequantize(x, real_x);
        step.backend.conv_backward_weight(conv_, {real_x}, {step.tensor(real_error_)}, {weight_->gradient});
      } else {
        step.backend.conv_backward_weight(conv_, x, error, {weight_->gradient});
      }
    }
    if (!needs_dx_) return;
    Timed timed(step.times, Phase::backward_data);
    step.backend.conv_backward_data(conv_, error, weight_->operand(), step.into(inputs_[0]));
  }

  void commit(Step& step) override {
    simulation_.commit();
    if (!affine_.normalize) return;
    // A statistic of the policy's own is no variance of a sample that Bessel's correction would be for.
    const int64_t samples = affine_.batch_statistics ? conv_.y.pixels() : 1;
    step.backend.update_running({.mean = batch_moments_, .variance = batch_moments_ + conv_.y.c}, samples,
                                policy_->norm_momentum(options_.momentum), running_mean_, running_variance_);
  }

  Work work(const Memory& memory) const override {
    const bool codes = weight_->encoding.quantized();
    const int64_t x = int64_t(memory.values[size_t(inputs_[0].id)].values.bytes());
    const int64_t dx = int64_t(memory.gradients[size_t(inputs_[0].id)].bytes());
    const int64_t weight = int64_t(weight_->operand().values.bytes()), d_weight = int64_t(weight_->gradient.bytes());
    const int64_t convolved = int64_t(memory.slots[size_t(convolved_.id)].bytes());
    const int64_t kept = keeps_codes() ? int64_t(memory.slots[size_t(kept_codes_.id)].bytes()) : 0;
    const int64_t value = int64_t(memory.values[size_t(output_.id)].values.bytes());
    const int64_t gradient = int64_t(memory.gradients[size_t(output_.id)].bytes());
    const int64_t error = int64_t(memory.slots[size_t(error_.id)].bytes());
    Work work;
    work.products = conv_.products() * (needs_dx_ ? 3 : 2);
    work.real_products = codes ? 0 : work.products;
    work.convolution_bytes = (x + weight + convolved) + (x + error + d_weight) + (needs_dx_ ? error + weight + dx : 0);
    // Forward reads the convolution and writes the value, perhaps codes too; backward reads the gradient and the
    // convolution twice (reduce, apply) and writes the error; a residual is read, and its gradient written.
    work.pass_bytes = convolved + kept + 2 * (kept > 0 ? kept : convolved) + value + 2 * gradient + error +
                      (has_residual_ ? 3 * value + gradient : 0);
    return work;
  }
  // The convolution's output, or where it lies no more, its mean.
  Tensor watched(const Step& step) const override {
    if (!keeps_codes()) return step.tensor(convolved_);
    return {batch_moments(step).mean, {1, 1, 1, conv_.y.c}, DType::f32};
  }

 private:
  Site site() const { return {index_, options_.reads_input, options_.gives_logits}; }
  // Whether backward asks where the activation of a sum passed.
  bool masks_sum() const { return has_residual_ && options_.activation != Activation::none; }
  int64_t per_sample() const { return conv_.y.elements() / conv_.y.n; }

  AffineParameters parameters() const {
    return {.gamma = gamma_ ? gamma_->master.f32() : nullptr, .beta = beta_->master.f32()};
  }

  Moments batch_moments(const Step& step) const {
    float* extremes = step.tensor(extremes_).f32();
    float* first = affine_.normalize ? batch_moments_ : step.tensor(unshared_moments_).f32();
    return {.mean = first, .variance = first + conv_.y.c, .min = extremes, .max = extremes + conv_.y.c};
  }

  bool keeps_codes() const { return kept_codes_.id >= 0; }
  // Codes are for backward alone.
  Convolved convolved(const Step& step) const {
    const Tensor real = step.tensor(convolved_);
    if (!keeps_codes() || !step.training) return real;
    float* const units = step.tensor(kept_units_).f32();
    return {real, step.tensor(kept_codes_), units, units + conv_.y.c};
  }

  // The error in the form the convolutions' gradients take it: codes, or real.
  QTensor backward_affine(Step& step) {
    Timed timed(step.times, Phase::norm);
    QTensor error{step.tensor(error_)};
    if (encode_error_.quantized()) error.scale = step.tensor(error_scale_).f32();
    const QTensor residual = masks_sum() ? step.value(inputs_[1]) : QTensor{};
    const Tensor dy = step.gradient(output_);
    const Convolved convolved = this->convolved(step);
    Moments moments = batch_moments(step);
    AffineParameters operands = parameters();
    if (simulation_) simulation_.norm_operands(step, conv_.y.c, moments, operands);
    const RngKey key = step.key(index_, Role::error, per_sample());
    const Into d_gamma = gamma_ ? Into{gamma_->gradient} : Into{}, d_beta{beta_->gradient};

    Encoding encoding = encode_error_;
    if (policy_->activation_clip() > 0 && encode_y_.quantized()) stop_at_clip(convolved.real, dy);
    Into d_residual = has_residual_ ? step.into(inputs_[1]) : Into{};
    if (has_residual_ && policy_->spares_shortcuts()) {
      step.backend.affine_backward(affine_, convolved, moments, operands, residual, dy, {}, {}, d_residual, Encoding{},
                                   key, {step.tensor(error_)}, {});
      d_residual = {};
    }
    if (rounds_value_error_)
      value_clip_ = policy_->round_value_error(dy, step.key(index_, Role::value_error, per_sample()));
    if (encoding.range == Range::held && clip_layer_ < 0) encoding.held = &value_clip_;
    Probe probe;
    if (clip_layer_ >= 0) {
      if (encoding.range == Range::held) encoding.held = step.clips->clip(clip_layer_);
      probe = step.clips->probe(clip_layer_, conv_.y.elements());
      if (encoding.held && !step.clips->known(clip_layer_)) {  // measure before quantizing
        step.backend.affine_backward(affine_, convolved, moments, operands, residual, dy, {}, {}, {}, encoding, key, {},
                                     probe);
        step.clips->prime(clip_layer_);
      }
    }
    if (real_weight_gradient_) {
      const Tensor real = step.tensor(real_error_);
      step.backend.affine_backward(affine_, convolved, moments, operands, residual, dy, d_gamma, d_beta, d_residual,
                                   Encoding{}, key, {real}, {});
      step.backend.quantize(real, encoding, key, error, probe);
    } else {
      step.backend.affine_backward(affine_, convolved, moments, operands, residual, dy, d_gamma, d_beta, d_residual,
                                   encoding, key, error, probe);
    }
    if (simulation_)
      simulation_.norm_backward(step, affine_, convolved.real, d_gamma.tensor, d_beta.tensor, error.values);
    return error;
  }

  // The gradient does not pass where the value was clipped (a block without norm and residual: its bias is that of its
  // beta).
  void stop_at_clip(const Tensor& convolved, const Tensor& dy) const {
    const float clip = policy_->activation_clip();
    const float *const z = convolved.f32(), *const bias = beta_->master.f32();
    const int64_t channels = conv_.y.c, count = dy.elements();
    float* const gradient = dy.f32();
#pragma omp parallel for
    for (int64_t i = 0; i < count; ++i)
      if (z[i] + bias[i % channels] > clip) gradient[i] = 0;
  }

  ConvBlockOptions options_;
  ConvProblem conv_;
  const Policy* policy_ = nullptr;
  Simulation simulation_;
  float value_clip_ = 0;  // of a policy that rounds the value's gradient: what encodes the error
  AffineProblem affine_;
  Encoding encode_y_, encode_error_;
  bool needs_dx_ = true, has_residual_ = false, real_weight_gradient_ = false, rounds_value_error_ = false;
  int weight_index_ = -1, gamma_index_ = -1, beta_index_ = -1;
  int mean_index_ = -1, variance_index_ = -1, moments_index_ = -1, clip_layer_ = -1;
  Slot convolved_, kept_codes_, kept_units_, error_, error_scale_, extremes_, unshared_moments_, real_error_, real_x_;
  Param *weight_ = nullptr, *gamma_ = nullptr, *beta_ = nullptr;
  Tensor running_mean_, running_variance_;
  float* batch_moments_ = nullptr;  // mean and variance of this rank's batch; averaged over ranks after backward
};

}  // namespace

std::unique_ptr<Node> make_conv_block(std::string name, std::vector<Edge> inputs, Edge output,
                                      const ConvBlockOptions& options) {
  return std::make_unique<ConvBlock>(std::move(name), std::move(inputs), output, options);
}

}  // namespace octet
