#include "src/graph/nodes/conv_node.h"

#include <fmt/format.h>

namespace octet {

std::string ConvNode::kind() const {
  const std::string stride = options_.stride > 1 ? fmt::format("/{}", options_.stride) : "";
  if (options_.linear) return "linear";
  const bool depthwise = options_.groups > 1 && options_.groups == conv_.x.c;
  return fmt::format("{} {}x{}{}", depthwise ? "depthwise" : "conv", conv_.kernel_h, conv_.kernel_w, stride);
}

std::string ConvNode::param_name(ParamRole role) const {
  constexpr const char* endings[] = {".weight", ".bias", ".weight", ".bias", ".running_mean", ".running_var"};
  return (role < ParamRole::gamma ? layer() : options_.norm) + endings[static_cast<size_t>(role)];
}

std::vector<NodeParam> ConvNode::params() const {
  using enum ParamRole;
  std::vector<NodeParam> params = Node::params();
  for (const ParamRole role : {weight, bias, gamma, beta, running_mean, running_variance})
    if (role == weight || (role == bias) != normalizes()) params.push_back({role, param_name(role)});
  return params;
}

Shape ConvNode::output_shape(const std::vector<Shape>& inputs) {
  const Shape& x = inputs[0];
  if (options_.linear) options_.kernel = {int(x.h), int(x.w)};
  conv_.x = x;
  conv_.kernel_h = options_.kernel.h;
  conv_.kernel_w = options_.kernel.w;
  conv_.stride_h = conv_.stride_w = options_.stride;
  conv_.dilation_h = conv_.dilation_w = options_.dilation;
  conv_.groups = int(options_.groups);
  REQUIRE(x.c % options_.groups == 0 && options_.out % options_.groups == 0, "make both divisible by the groups", "'",
          name_, "' takes ", x.c, " channels and gives ", options_.out, " in ", options_.groups, " groups");
  const auto padded = [&](int64_t in, int kernel, int pad) -> Padded {
    if (options_.same) return same_padding(in, kernel, options_.stride, options_.dilation);
    return {output_extent(in, kernel, options_.stride, pad, options_.dilation), pad};
  };
  const Padded rows = padded(x.h, conv_.kernel_h, options_.pad.h),
               columns = padded(x.w, conv_.kernel_w, options_.pad.w);
  conv_.pad_h = rows.pad;
  conv_.pad_w = columns.pad;
  conv_.y = {x.n, rows.out, columns.out, options_.out};
  REQUIRE_USAGE(conv_.y.h > 0 && conv_.y.w > 0, "use larger images or a network with fewer strides", "'", name_,
                "' shrinks an image of ", x.h, "x", x.w, " to nothing");
  if (has_residual())
    REQUIRE(inputs[1] == conv_.y, "give the shortcut a projection", "'", name_, "' gives ", conv_.y.h, "x", conv_.y.w,
            "x", conv_.y.c, ", its shortcut ", inputs[1].h, "x", inputs[1].w, "x", inputs[1].c);
  return conv_.y;
}

// What gives a norm with one value of each channel more of them. A linear layer gives one value for an image of any
// size.
std::string ConvNode::more_values() const {
  const char* const images = norm_groups_ > 1 ? "set train.norm_group to 0, or to more images"
                                              : "give each norm more images: a larger data.batch, fewer ranks or a "
                                                "smaller train.accumulate";
  return say(images, options_.linear ? "" : "; or use larger images: data.image_size");
}

void ConvNode::declare_layer(Declare& d, const Encoding& of_weight) {
  using enum ParamRole;
  Parameters& state = d.parameters();
  const int64_t channels = conv_.y.c;
  const Shape row{1, 1, 1, channels};
  policy_.check_layer(name_, normalizes(), conv_.y.pixels());
  runs_backward_ = d.needs_backward();
  needs_dx_ = d.needs_gradient(inputs_[0]);
  needs_residual_ = has_residual() && d.needs_gradient(inputs_[1]);
  norm_groups_ = d.norm_groups();
  images_ = d.images();
  Shape of_group = conv_.y;
  of_group.n /= norm_groups_;
  REQUIRE_USAGE(!d.training() || !normalizes() || freezes_norm() || of_group.pixels() > 1, more_values(), "the norm '",
                options_.norm, "' would have one value of each channel, of one image",
                options_.linear ? "" : " of 1 x 1", ", and no variance");
  affine_ = {.shape = of_group,
             .normalize = normalizes(),
             .batch_statistics = !freezes_norm(),
             .epsilon = options_.epsilon,
             .activation = options_.activation};

  const bool full_precision = !policy_.quantizes(position());
  const bool shared = !options_.layer.empty();
  REQUIRE(!shared || !normalizes(), "share layers without a norm", "'", name_, "' shares '", layer(),
          "', whose norm would need statistics for each use");
  weight_index_ =
      state.declare({.name = param_name(weight),
                     .kind = options_.linear ? ParamKind::linear_weight : ParamKind::conv_weight,
                     .shape = conv_.weight(),
                     .init = options_.init.value_or(options_.linear ? Init::linear_uniform : Init::kaiming_fan_out),
                     .full_precision = full_precision,
                     .frozen = options_.frozen,
                     .of_classes = options_.of_classes,
                     .shared = shared,
                     .node = index_,
                     .encoding = of_weight});
  if (normalizes())
    gamma_index_ = state.declare({.name = param_name(gamma),
                                  .kind = ParamKind::norm_weight,
                                  .shape = row,
                                  .init = Init::one,
                                  .frozen = freezes_norm(),
                                  .node = index_});
  beta_index_ = state.declare({.name = param_name(normalizes() ? beta : bias),
                               .kind = ParamKind::bias,
                               .shape = row,
                               .init = options_.bias_init,
                               .full_precision = full_precision && !normalizes(),
                               .frozen = options_.frozen || freezes_norm(),
                               .of_classes = options_.of_classes,
                               .shared = shared,
                               .node = index_});
  if (normalizes()) {
    const Tensor statistic{nullptr, row, DType::f32};
    mean_index_ = state.declare_statistic({.name = param_name(running_mean), .tensor = statistic, .initial = 0});
    variance_index_ =
        state.declare_statistic({.name = param_name(running_variance), .tensor = statistic, .initial = 1});
  }
  if (normalizes() && !freezes_norm())
    moments_index_ = state.declare_moments(options_.norm, channels);
  else
    unshared_moments_ = d.keep({1, norm_groups_, 2, channels}, DType::f32, Need::both);
  extremes_ = d.keep({1, norm_groups_, 2, channels}, DType::f32, Need::forward);
  d.reads_in_backward(inputs_[0]);
  if (d.training() && runs_backward_ && options_.activation != Activation::none) {
    Shape bits = mask_shape(of_group);
    bits.n = norm_groups_;
    mask_ = d.keep(bits, DType::u8, Need::both);
  }
}

void ConvNode::bind(Parameters& state) {
  state_ = &state;
  weight_ = &state.param(weight_index_);
  gamma_ = gamma_index_ >= 0 ? &state.param(gamma_index_) : nullptr;
  beta_ = &state.param(beta_index_);
  if (!normalizes()) return;
  running_mean_ = state.statistic(mean_index_);
  running_variance_ = state.statistic(variance_index_);
  if (moments_index_ < 0) return;
  batch_moments_ = state.moments(moments_index_);
  moments_of_group_ = state.moments_of_group();
}

Moments ConvNode::batch_moments(const Step& step, int64_t group) const {
  float* extremes = step.tensor(extremes_).f32() + group * 2 * conv_.y.c;
  float* first = moments_index_ >= 0 ? batch_moments_ + group * moments_of_group_
                                     : step.tensor(unshared_moments_).f32() + group * 2 * conv_.y.c;
  return {.mean = first, .variance = first + conv_.y.c, .min = extremes, .max = extremes + conv_.y.c};
}

Moments ConvNode::norm_moments(const Step& step, int64_t group) const {
  Moments moments = batch_moments(step, group);
  if (normalizes() && (!step.training || freezes_norm())) {
    moments.mean = running_mean_.f32();
    moments.variance = running_variance_.f32();
  }
  return moments;
}

void ConvNode::add_running(std::vector<RunningStep>& steps, int64_t samples, float momentum) const {
  if (moments_index_ < 0) return;
  const Moments batch{.mean = batch_moments_, .variance = batch_moments_ + conv_.y.c};
  steps.push_back({batch, samples, momentum, running_mean_, running_variance_});
}

Work ConvNode::work(const Memory& memory) const {
  const bool codes = weight_->encoding.quantized();
  const int64_t x = int64_t(memory.values[size_t(inputs_[0].id)].values.bytes());
  const int64_t dx = int64_t(memory.gradients[size_t(inputs_[0].id)].bytes());
  const int64_t weight = int64_t(weight_->operand().values.bytes()), d_weight = int64_t(weight_->gradient.bytes());
  const int64_t convolved = int64_t(memory.slots[size_t(convolved_.id)].bytes());
  const int64_t kept = int64_t(kept_code_bytes(memory));
  const int64_t value = int64_t(memory.values[size_t(output_.id)].values.bytes());
  const int64_t gradient = int64_t(memory.gradients[size_t(output_.id)].bytes());
  const int64_t grad_output = int64_t(memory.slots[size_t(grad_output_.id)].bytes());
  Work work;
  const bool trains = !weight_->frozen;
  work.products = conv_.products() * (1 + int(trains) + int(needs_dx_));
  work.real_products = codes ? 0 : work.products;
  work.convolution_bytes = (x + weight + convolved) + (trains ? x + grad_output + d_weight : 0) +
                           (needs_dx_ ? grad_output + weight + dx : 0);
  // Forward reads the convolution's output and writes the block's output, and codes if they are kept. Backward reads
  // the output gradient and the convolution's output twice, to reduce and to apply, and writes grad_output. A residual
  // adds a read, and a write of its gradient. The mask is written once and read twice.
  work.pass_bytes = convolved + kept + value + (has_residual() ? value : 0);
  const int64_t mask = mask_.id < 0 ? 0 : int64_t(memory.slots[size_t(mask_.id)].bytes());
  if (runs_backward_)
    work.pass_bytes +=
        2 * (kept > 0 ? kept : convolved) + 2 * gradient + grad_output + 3 * mask + (has_residual() ? gradient : 0);
  return work;
}

}  // namespace octet
