// y = encode(activation(norm(conv(x)) + residual)), forward and backward, for every convolution and linear layer. The
// policy decides whether the layer multiplies codes, so no network needs an int8 variant.
#include "kernels/shared/sums.h"
#include "src/graph/nodes/conv_node.h"

namespace octet {
namespace {

class ConvBlock final : public ConvNode {
 public:
  using ConvNode::ConvNode;

  bool reads_real(const Policy&, Edge edge) const override { return edge.id == inputs_[0].id && !quantized(); }

  bool takes_parts(Edge edge) const override {
    if (policy_.traits().rounds_block_gradient) return false;
    if (edge.id == output_.id) return options_.activation == Activation::none;
    if (has_residual() && edge.id == inputs_[1].id) return false;
    return edge.id == inputs_[0].id && quantized() && conv_.groups == 1 && conv_.stride_h == 1 && conv_.stride_w == 1;
  }

  // The kernels of fixed order alone have these bits for their place: other kinds of real numbers are a policy's
  // choice.
  bool reads_pixels(const Policy& policy) const override {
    return !quantized() && policy.traits().real_convolution == RealConvolution::fixed_order && takes_pixels(conv_);
  }

  void declare(Declare& d) override {
    const bool codes = quantized();
    if (d.is_pixels(inputs_[0])) pixels_ = *d.pixels();
    if (codes) check_sums(d);
    REQUIRE(d.storage() == DType::f32 || !policy_.traits().rounds_block_gradient, "store f32 between its roundings",
            "policy ", policy_.traits().name, " with ", name_of(d.storage()), " storage");
    declare_layer(d, codes ? policy_.encoding(Role::weight) : Encoding{});
    encode_y_ = d.encoding(output_);
    range_ = d.activation_range(name_, output_, encode_y_);
    if (!encode_y_.quantized() && !options_.gives_logits && policy_.traits().holds_ranges) measure_real(d);
    if (codes) encode_gradient_ = policy_.encoding(Role::grad_output);
    if (d.storage() == DType::s8 && !options_.gives_logits) {
      convolved_ = d.keep(conv_.y, DType::bf16, Need::forward);
      kept_codes_ = d.keep(conv_.y, DType::s8, Need::both);
      kept_units_ = d.keep({1, norm_groups_, 2, conv_.y.c}, DType::f32, Need::both);
    } else {
      convolved_ = d.keep(conv_.y, options_.gives_logits ? DType::f32 : d.storage(), Need::both);
    }
    grad_output_ = d.keep(conv_.y, codes ? DType::s8 : DType::f32, Need::backward);
    if (codes) gradient_scale_ = d.keep({1, 1, 1, 1}, DType::f32, Need::backward);
    check_groups();
    // Masks of one group are those of the batch.
    sums_gradient_ = normalizes() && !freezes_norm() && norm_groups_ == 1 && runs_backward_ && encode_y_.quantized() &&
                     d.training() && d.storage() == DType::bf16;
    finishes_dx_ = d.writes_last(inputs_[0]);
    leaves_gaps_ = needs_dx_ && d.training() && codes && conv_.groups == 1 && conv_.kernel_h * conv_.kernel_w == 1 &&
                   conv_.pad_h + conv_.pad_w == 0 && conv_.stride_h == 2 && conv_.stride_w == 2 &&
                   d.leaves_gaps(inputs_[0]);
    shares_gradient_ = needs_residual_ && d.training() && !policy_.traits().rounds_block_gradient &&
                       d.shares_gradient(inputs_[1], mask_);
    if (codes && policy_.traits().needs_clips && d.needs_backward()) clip_layer_ = d.clip_layer(layer(), weight_index_);
  }

  void forward(Step& step) override {
    NormCoefficients coefficients{affine_, parameters()};
    convolve(step, coefficients);
    step.encode(measures_real() ? -1 : range_, encode_y_, [&](const Encoding& encoding, Probe probe) {
      for (int64_t group = 0; group < norm_groups_; ++group) forward(step, group, encoding, probe, coefficients);
    });
    if (measures_real() && step.measures) encode_unread(step);
    if (sums_gradient_)
      step.memory.sums[size_t(output_.id)] = {affine_,    step.tensor(convolved_), norm_moments(step), parameters(),
                                              mask(step), gradient_of(gamma_),     gradient_of(beta_)};
  }

  void backward(Step& step) override {
    const QTensor grad_output = backward_affine(step);
    backward_weight(step, grad_output);
    if (!needs_dx_) return;
    Timed timed(step.times, Phase::backward_data);
    Into dx = step.into(inputs_[0]);
    if (leaves_gaps_) {
      dx.even = true;
      step.write_part(inputs_[0]);
    }
    step.backend.conv_backward_data(
        {conv_, grad_output, weight_->operand(), dx, finishes_dx_ ? step.sums(inputs_[0]) : nullptr});
  }

  void update_statistics(Step&, std::vector<RunningStep>& running) override {
    add_running(running, affine_.shape.pixels(), options_.momentum);
  }

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

  // An output that is read as real numbers has a range all the same, with which an integer network encodes it. It is
  // held as other ranges are: the output is encoded, but nothing reads the codes.
  bool measures_real() const { return unread_codes_.id >= 0; }
  void measure_real(Declare& d) {
    encode_unread_ = policy_.encoding(never_negative() ? Role::positive_activation : Role::activation);
    range_ = d.activation_range(name_, output_, encode_unread_);
    unread_codes_ = d.keep(conv_.y, encode_unread_.dtype, Need::forward);
    unread_scale_ = d.keep({1, 1, 1, 1}, DType::f32, Need::forward);
  }
  void encode_unread(Step& step) {
    Timed timed(step.times, Phase::quantize);
    const QTensor codes{step.tensor(unread_codes_), step.tensor(unread_scale_).f32()};
    step.encode(range_, encode_unread_, [&](const Encoding& encoding, Probe probe) {
      step.backend.quantize(
          {step.value(output_).values, encoding, step.key(index_, Role::activation, per_sample()), codes, probe});
    });
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

  // The groups of a batch are encoded with one scale, so it must be known before the first group is.
  void check_groups() const {
    const auto measured = [](const Encoding& encoding) {
      return encoding.quantized() && encoding.range != Range::held;
    };
    REQUIRE_USAGE(norm_groups_ == 1 ||
                      !(measured(encode_y_) || measured(encode_gradient_) || policy_.traits().rounds_block_gradient),
                  "set policy.activation_range: held and policy.clip.enabled: true, or train.norm_group: 0",
                  "train.norm_group needs ranges that are known before a step");
  }

  int64_t group_rows() const { return affine_.shape.n; }
  template <class Rows>
  Rows of_group(const Rows& rows, int64_t group) const {
    return rows ? rows.images(group * group_rows(), group_rows()) : rows;
  }
  ConvProblem conv_of_group() const {
    ConvProblem conv = conv_;
    conv.x.n = conv.y.n = group_rows();
    return conv;
  }
  RngKey key(const Step& step, Role role, int64_t group) const {
    return step.key(index_, role, per_sample(), group * (images_ / norm_groups_));
  }

  // Evaluation writes no codes, since only backward reads them.
  Convolved convolved(const Step& step, int64_t group) const {
    const Tensor real = of_group(step.tensor(convolved_), group);
    if (!keeps_codes() || !step.training) return real;
    float* const units = step.tensor(kept_units_).f32() + group * 2 * conv_.y.c;
    return {real, of_group(step.tensor(kept_codes_), group), units, units + conv_.y.c};
  }

  // Whether a norm or a range needs what the convolution finds out about its output. Evaluation has the running
  // statistics and the held range; logits have neither a norm nor a range.
  bool needs_moments(const Step& step) const {
    const bool of_batch = encode_y_.quantized() && range_ < 0;
    return (step.measures || of_batch) && (normalizes() || !options_.gives_logits);
  }

  // Only a range of this batch and kept codes follow from the least and largest values of channels.
  Moments with_needed_extremes(Moments moments) const {
    if (!keeps_codes() && (range_ >= 0 || !encode_y_.quantized())) moments.min = moments.max = nullptr;
    return moments;
  }

  void convolve(Step& step, NormCoefficients& coefficients) const {
    Timed timed(step.times, Phase::forward);
    std::vector<Moments> moments;
    for (int64_t group = 0; group < norm_groups_ && needs_moments(step); ++group)
      moments.push_back(with_needed_extremes(batch_moments(step, group)));
    const QTensor x = step.value(inputs_[0]), w = weight_->operand();
    const Tensor y = step.tensor(convolved_);
    const bool of_batch = normalizes() && step.training && !freezes_norm() && moments.size() == 1;
    NormCoefficients* const own = of_batch ? &coefficients : nullptr;
    if (pixels_)
      step.backend.pixel_forward({conv_of_group(), *pixels_, x.values, w.values, y, moments, own});
    else
      step.backend.conv_forward({conv_of_group(), x, w, y, moments, own});
  }

  void forward(Step& step, int64_t group, const Encoding& encoding, Probe probe, const NormCoefficients& coefficients) {
    const Convolved convolved = this->convolved(step, group);
    Timed timed(step.times, Phase::passes);
    const QTensor residual = has_residual() ? of_group(step.value(inputs_[1]), group) : QTensor{};
    Moments moments = with_needed_extremes(norm_moments(step, group));
    if (!needs_moments(step)) moments.min = moments.max = nullptr;
    step.backend.affine_forward({affine_, convolved, moments, parameters(), residual, encoding,
                                 key(step, Role::activation, group), of_group(step.value(output_), group), probe,
                                 mask(step, group), &coefficients});
  }

  // Computes the gradient with respect to the convolution's output, as codes or as f32 values.
  QTensor backward_affine(Step& step) {
    Timed timed(step.times, Phase::passes);
    QTensor grad_output{step.tensor(grad_output_)};
    Encoding encoding = encode_gradient_;
    if (encoding.quantized()) grad_output.scale = step.tensor(gradient_scale_).f32();
    if (policy_.traits().rounds_block_gradient)
      block_clip_ = policy_.round_block_gradient(
          {step.gradient(output_), step.tensor(convolved_), beta_->master.f32(), encode_y_.quantized()},
          step.key(index_, Role::grad_block, per_sample()));
    Probe probe;
    if (clip_layer_ >= 0) {
      if (encoding.range == Range::held) encoding.held = step.held.gradients->clip(clip_layer_);
      probe = step.held.gradients->probe(clip_layer_, affine_.shape.elements(), norm_groups_);
      if (encoding.held && !step.held.gradients->known(clip_layer_)) {  // measure before quantizing
        for (int64_t group = 0; group < norm_groups_; ++group)
          backward_affine(step, group, encoding, probe, {}, {}, {}, {});
        step.held.gradients->prime(clip_layer_);
      }
    } else if (encoding.range == Range::held) {
      encoding.held = &block_clip_;
    }
    if (shares_gradient_) step.write_part(inputs_[1]);
    const Into d_residual = shares_gradient_ ? Into{} : residual_gradient(step);
    for (int64_t group = 0; group < norm_groups_; ++group) {
      backward_affine(step, group, encoding, probe, gradient_of(gamma_), gradient_of(beta_),
                      of_group(d_residual, group), of_group(grad_output, group));
      finish_gradient(gamma_);
      finish_gradient(beta_);
    }
    return grad_output;
  }

  // A norm group's gradient is the same on any number of ranks. That of a rank's batch is not.
  void backward_weight(Step& step, const QTensor& grad_output) const {
    if (weight_->frozen) return;
    Timed timed(step.times, Phase::backward_weight);
    const QTensor x = step.value(inputs_[0]);
    const bool by_group = state_->exact_sums();
    for (int64_t group = 0; group < (by_group ? norm_groups_ : 1); ++group) {
      const ConvProblem problem = by_group ? conv_of_group() : conv_;
      const QTensor images = by_group ? of_group(x, group) : x,
                    dy = by_group ? of_group(grad_output, group) : grad_output;
      if (pixels_)
        step.backend.pixel_backward_weight({problem, *pixels_, images.values, dy.values, gradient_of(weight_)});
      else
        step.backend.conv_backward_weight({problem, images, dy, gradient_of(weight_)});
      finish_gradient(weight_);
    }
  }

  void backward_affine(Step& step, int64_t group, const Encoding& encoding, Probe probe, Into d_gamma, Into d_beta,
                       Into d_residual, QTensor grad_output) {
    step.backend.affine_backward({.problem = affine_,
                                  .x = convolved(step, group),
                                  .moments = norm_moments(step, group),
                                  .parameters = parameters(),
                                  .mask = step.is_part(output_) ? step.mask(output_) : mask(step, group),
                                  .dy = of_group(step.gradient(output_), group),
                                  .d_gamma = d_gamma,
                                  .d_beta = d_beta,
                                  .d_residual = d_residual,
                                  .encoding = encoding,
                                  .key = key(step, Role::grad_output, group),
                                  .grad_output = grad_output,
                                  .probe = probe,
                                  .sums = step.sums(output_)});
  }

  Encoding encode_y_, encode_gradient_, encode_unread_;
  std::optional<PixelScale> pixels_;  // of the input, where it is bytes of images
  Slot kept_codes_, kept_units_, gradient_scale_, unread_codes_, unread_scale_;
  int clip_layer_ = -1;
  bool sums_gradient_ = false;    // the norm sums over a gradient that a data gradient may finish
  bool shares_gradient_ = false;  // with its residual
  bool leaves_gaps_ = false;      // in that of its input
  bool finishes_dx_ = false;      // no other node adds to the gradient of the input afterwards
  float block_clip_ = 0;          // if the policy rounds the block's gradient: the clip that encodes grad_output
};

}  // namespace

Edge conv(Graph& graph, const std::string& name, Edge x, const ConvOptions& options) {
  std::vector<Edge> inputs{x};
  if (options.residual) inputs.push_back(*options.residual);
  if (graph.policy().integers()) return integer_conv(graph, name, inputs, options);
  if (graph.policy().simulation()) return simulated_conv(graph, name, inputs, options);
  return graph.add<ConvBlock>(name, inputs, options, graph);
}

Edge linear(Graph& graph, const std::string& name, Edge x, ConvOptions options) {
  options.linear = true;
  options.of_classes = options.gives_logits;
  return conv(graph, name, x, options);
}

}  // namespace octet
