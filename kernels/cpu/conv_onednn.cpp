// Real-valued convolutions by oneDNN: the fp32 policy, where speed matters and equality across instruction sets does
// not.
#include <omp.h>

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <map>
#include <vector>

#include "kernels/cpu/convolution.h"
#include "kernels/shared/encode.h"
#include "kernels/shared/sums.h"

namespace octet::cpu {
namespace {

using dnnl::memory;

// oneDNN takes its thread count from the calling thread's OpenMP settings.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// One pass of one problem: two operands (x and w, dy and w, or x and dy) and what is written, each as the argument of
// this number.
struct Pass {
  dnnl::primitive primitive;
  dnnl::primitive reorder{};  // brings weights into, or gradients out of, oneDNN's own layout
  memory plain{}, own{};      // both ends of the reorder; own.get() is null when none is needed
  memory first, second, output;
  int first_argument = 0, second_argument = 0, output_argument = 0;
};

// A fully connected layer, or the pixel list of a 1x1 convolution, is a product of matrices. oneDNN's matrix products
// take plain layouts and are 9 to 17 times as fast as its convolutions here (AlexNet's 4096 to 4096).
bool fully_connected(const ConvProblem& p) {
  return p.groups == 1 && p.y.h == 1 && p.y.w == 1 && p.kernel_h == p.x.h && p.kernel_w == p.x.w && p.pad_h == 0 &&
         p.pad_w == 0 && p.dilation_h == 1 && p.dilation_w == 1;
}

// oneDNN 2.6 computes some weight gradients of 1x1 convolutions with a stride wrongly: where a vector has more lanes
// than there are input channels, it writes beyond its own scratch memory and sums what it finds there.
bool library_overruns(const ConvProblem& p) {
  return p.kernel_h == 1 && p.kernel_w == 1 && (p.stride_h > 1 || p.stride_w > 1) && p.x.c / p.groups < 16;
}

class OneDnnConvolution final : public Convolution {
 public:
  explicit OneDnnConvolution(Threads threads)
      : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    REQUIRE(threads.count >= 1, "ask for at least one thread", "a convolution with ", threads.count, " threads");
  }

  void forward(const ConvForwardCall& call) override {
    for (int64_t group = 0; group < call.groups(); ++group) convolve(call.group(group));
  }

  void backward_data(const ConvBackwardDataCall& call) override {
    const auto& [p, dy, w, dx, sums] = call;
    const ThreadCount scope(threads_.count);
    Pass& pass = planned(p, dnnl::prop_kind::backward_data);
    const bool direct = dx.tensor.dtype == DType::f32 && !dx.add;
    float* values = direct ? dx.tensor.f32() : result_.get<float>(static_cast<size_t>(dx.tensor.elements()));
    bring_weights(pass, w.values.data);
    pass.first.set_data_handle(dy.values.data);
    pass.output.set_data_handle(values);
    execute(pass);
    if (!direct) finish(values, dx);
  }

  void backward_weight(const ConvBackwardWeightCall& call) override {
    const auto& [p, x, dy, dw] = call;
    if (library_overruns(p)) return own_kernels_->backward_weight(call);
    const ThreadCount scope(threads_.count);
    Pass& pass = planned(p, dnnl::prop_kind::backward_weights);
    float* values = dw.add ? result_.get<float>(static_cast<size_t>(dw.tensor.elements())) : dw.tensor.f32();
    pass.first.set_data_handle(x.values.data);
    pass.second.set_data_handle(dy.values.data);
    pass.plain.set_data_handle(values);
    if (!pass.own) pass.output.set_data_handle(values);
    execute(pass);
    if (pass.own) execute_reorder(pass, pass.own, pass.plain);
    if (dw.add) finish(values, dw);
  }

  size_t scratch_bytes() const override {
    return result_.bytes() + moments_.bytes() + own_bytes_ + own_kernels_->scratch_bytes();
  }

 private:
  using Key = std::array<int64_t, 18>;

  void convolve(const ConvForwardCall& call) {
    const auto& [p, x, w, y, moments, coefficients] = call;
    const ThreadCount scope(threads_.count);
    Pass& pass = planned(p, dnnl::prop_kind::forward);
    float* values = y.dtype == DType::f32 ? y.f32() : result_.get<float>(static_cast<size_t>(y.elements()));
    bring_weights(pass, w.values.data);
    pass.first.set_data_handle(x.values.data);
    pass.output.set_data_handle(values);
    execute(pass);
    for (const Moments& of_group : moments) measure_moments(threads_, values, p.y, of_group, moments_);
    if (y.dtype == DType::bf16) finish(values, {y, false});
  }

  Pass& planned(const ConvProblem& p, dnnl::prop_kind kind) {
    const Key key = {p.x.n,   p.x.h,   p.x.w,        p.x.c,        p.y.n,      p.y.h,
                     p.y.w,   p.y.c,   p.kernel_h,   p.kernel_w,   p.stride_h, p.stride_w,
                     p.pad_h, p.pad_w, p.dilation_h, p.dilation_w, p.groups,   static_cast<int64_t>(kind)};
    const auto found = passes_.find(key);
    if (found != passes_.end()) return found->second;
    const ConvProblem list = as_pixel_list(p);
    return passes_.emplace(key, fully_connected(list) ? plan_matrices(list, kind) : plan(p, kind)).first->second;
  }

  // y[n][o] = sum over k of x[n][k] w[o][k] and its gradients, all operands where and as they are.
  Pass plan_matrices(const ConvProblem& p, dnnl::prop_kind kind) {
    using Tag = memory::format_tag;
    const int64_t images = p.x.n, outputs = p.y.c, inputs = p.x.h * p.x.w * p.x.c;
    const auto matrix = [](int64_t rows, int64_t columns, Tag order) {
      return memory::desc({rows, columns}, memory::data_type::f32, order);
    };
    const auto product = [&](const memory::desc& a, const memory::desc& b, const memory::desc& c) {
      const dnnl::matmul::primitive_desc description({a, b, c}, engine_);
      return Pass{.primitive = dnnl::matmul(description),
                  .first = memory(a, engine_, nullptr),
                  .second = memory(b, engine_, nullptr),
                  .output = memory(c, engine_, nullptr),
                  .first_argument = DNNL_ARG_SRC,
                  .second_argument = DNNL_ARG_WEIGHTS,
                  .output_argument = DNNL_ARG_DST};
    };
    const memory::desc x = matrix(images, inputs, Tag::ab), y = matrix(images, outputs, Tag::ab),
                       w = matrix(outputs, inputs, Tag::ab);
    Pass pass = kind == dnnl::prop_kind::forward         ? product(x, matrix(inputs, outputs, Tag::ba), y)
                : kind == dnnl::prop_kind::backward_data ? product(y, w, x)
                                                         : product(matrix(outputs, images, Tag::ba), x, w);
    if (kind == dnnl::prop_kind::backward_weights) {  // its first factor is dy
      std::swap(pass.first, pass.second);
      std::swap(pass.first_argument, pass.second_argument);
    }
    pass.plain = memory(w, engine_, nullptr);
    return pass;
  }

  Pass plan(const ConvProblem& p, dnnl::prop_kind kind) {
    using Tag = memory::format_tag;
    const auto type = memory::data_type::f32;
    const memory::desc x({p.x.n, p.x.c, p.x.h, p.x.w}, type, Tag::nhwc),
        y({p.y.n, p.y.c, p.y.h, p.y.w}, type, Tag::nhwc);
    const int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups;
    const memory::dims extent = p.groups == 1 ? memory::dims{outputs, inputs, p.kernel_h, p.kernel_w}
                                              : memory::dims{p.groups, outputs, inputs, p.kernel_h, p.kernel_w};
    const memory::desc plain(extent, type, p.groups == 1 ? Tag::ohwi : Tag::gohwi), any(extent, type, Tag::any);
    const memory::dims stride{p.stride_h, p.stride_w}, dilation{p.dilation_h - 1, p.dilation_w - 1},
        pad{p.pad_h, p.pad_w},
        end{end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
            end_padding(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w)};
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, x, any, y, stride, dilation, pad, end}, engine_);
    Pass pass;
    pass.plain = memory(plain, engine_, nullptr);
    const auto own_layout = [&](const memory::desc& wanted) {
      if (wanted == plain) return memory(plain, engine_, nullptr);
      own_bytes_ += wanted.get_size();
      return pass.own = memory(wanted, engine_);
    };
    if (kind == dnnl::prop_kind::forward) {
      pass.primitive = dnnl::convolution_forward(forward);
      pass.first = memory(x, engine_, nullptr);
      pass.second = own_layout(forward.weights_desc());
      pass.output = memory(y, engine_, nullptr);
      pass.first_argument = DNNL_ARG_SRC, pass.second_argument = DNNL_ARG_WEIGHTS, pass.output_argument = DNNL_ARG_DST;
    } else if (kind == dnnl::prop_kind::backward_data) {
      const dnnl::convolution_backward_data::primitive_desc backward({algorithm, x, any, y, stride, dilation, pad, end},
                                                                     engine_, forward);
      pass.primitive = dnnl::convolution_backward_data(backward);
      pass.first = memory(y, engine_, nullptr);
      pass.second = own_layout(backward.weights_desc());
      pass.output = memory(x, engine_, nullptr);
      pass.first_argument = DNNL_ARG_DIFF_DST, pass.second_argument = DNNL_ARG_WEIGHTS,
      pass.output_argument = DNNL_ARG_DIFF_SRC;
    } else {
      const dnnl::convolution_backward_weights::primitive_desc backward(
          {algorithm, x, any, y, stride, dilation, pad, end}, engine_, forward);
      pass.primitive = dnnl::convolution_backward_weights(backward);
      pass.first = memory(x, engine_, nullptr);
      pass.second = memory(y, engine_, nullptr);
      pass.output = own_layout(backward.diff_weights_desc());
      pass.first_argument = DNNL_ARG_SRC, pass.second_argument = DNNL_ARG_DIFF_DST,
      pass.output_argument = DNNL_ARG_DIFF_WEIGHTS;
    }
    if (pass.own)
      pass.reorder = kind == dnnl::prop_kind::backward_weights ? dnnl::reorder(pass.own, pass.plain)
                                                               : dnnl::reorder(pass.plain, pass.own);
    return pass;
  }

  void bring_weights(Pass& pass, void* weights) {
    pass.plain.set_data_handle(weights);
    if (pass.own)
      execute_reorder(pass, pass.plain, pass.own);
    else
      pass.second.set_data_handle(weights);
  }
  void execute_reorder(Pass& pass, memory& from, memory& to) {
    pass.reorder.execute(stream_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    stream_.wait();
  }
  void execute(Pass& pass) {
    pass.primitive.execute(
        stream_,
        {{pass.first_argument, pass.first}, {pass.second_argument, pass.second}, {pass.output_argument, pass.output}});
    stream_.wait();
  }

  // to (+)= values, rounded if need be.
  void finish(const float* values, Into to) const {
    const int64_t count = to.tensor.elements();
    const bool add = to.add;
    if (to.tensor.dtype == DType::f32) {
      float* out = to.tensor.f32();
#pragma omp parallel for num_threads(threads_.count) schedule(static)
      for (int64_t i = 0; i < count; ++i) out[i] = add ? out[i] + values[i] : values[i];
    } else {
      auto* out = to.tensor.as<uint16_t>();
#pragma omp parallel for num_threads(threads_.count) schedule(static)
      for (int64_t i = 0; i < count; ++i) out[i] = to_bf16(add ? from_bf16(out[i]) + values[i] : values[i]);
    }
  }

  const Threads threads_;
  const std::unique_ptr<Convolution> own_kernels_ = make_fixed_order_convolution(best_isa(), threads_);
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<Key, Pass> passes_;
  Scratch result_, moments_;
  size_t own_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Convolution> make_onednn_convolution(Threads threads) {
  return std::make_unique<OneDnnConvolution>(threads);
}

}  // namespace octet::cpu

namespace octet {

const char* real_convolutions() { return "oneDNN"; }

}  // namespace octet
