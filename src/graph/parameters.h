// A network's state, which does not depend on the batch size: parameters with their gradients and velocities, encoded
// weights, and the running statistics of norms. Several plans share one state.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "kernels/backend.h"
#include "src/quant/policy.h"

namespace octet {

class WeightClips;

enum class ParamKind : uint8_t { conv_weight, linear_weight, norm_weight, bias };
constexpr bool is_weight(ParamKind kind) { return kind <= ParamKind::linear_weight; }
enum class Init : uint8_t {
  kaiming_fan_out,
  linear_uniform,
  lecun_uniform,  // variance 1 / products of a sum
  normal_001,
  normal_0001,
  rare,  // the logit of 0.01: the bias of a detector's class logits (Lin et al. 2017, RetinaNet, section 4.1)
  one,
  zero
};

struct Param {
  std::string name;  // torchvision's, for example layer1.0.conv1.weight
  ParamKind kind = ParamKind::conv_weight;
  Shape shape;  // weights OHWI; others (1, 1, 1, C)
  Init init = Init::zero;
  bool full_precision = false;      // see UpdateContext
  bool frozen = false;              // never trained: it has no gradient and no velocity
  bool of_classes = false;          // of a layer whose outputs belong to classes
  bool shared = false;              // several layers of a plan declare it; their gradients are added
  int node = 0;                     // its layer, of several the one whose backward runs last
  Encoding encoding = {};           // s8: each step encodes `master` into `codes`, with which the layer computes
  const float* lr_scale = nullptr;  // owned by the ClipCoordinator; null means 1

  size_t offset = 0;                                 // in floats, in the flat buffers; parameters are in backward order
  Tensor master = {}, gradient = {}, velocity = {};  // f32 views of the flat buffers
  Tensor square = {};                                // likewise; the mean of squared gradients, of AdamW alone
  bool written = false;                              // this step has already written a gradient
  int64_t* sum = nullptr;  // if sums are exact: of the gradients of all norm groups, in fixed point
  QTensor codes = {};

  QTensor operand() const { return encoding.quantized() ? codes : QTensor{master}; }
};

// A value that is saved but not trained, for example bn1.running_mean. It is identical on every rank.
struct Statistic {
  std::string name;
  Tensor tensor;               // (1, 1, 1, C) f32
  float initial = 0;           // value of every element before step 1
  bool training_only = false;  // saved in checkpoints only, since evaluation does not read it
  bool range = false;          // of an activation, see ActivationRanges
  // A range that training does not read; the integer network does. Files that lack it are whole, and hold no average.
  bool unread = false;
};

struct ParameterOptions {
  bool exact_sums = false;  // each norm group's gradient is rounded to fixed point and added as integers
  bool averages = false;    // moving averages of masters and statistics are kept
  bool squares = false;     // the optimizer keeps means of squared gradients
};
ParameterOptions parameter_options(const Config&);

class Parameters {
 public:
  Parameters(const Policy&, Backend&, const ParameterOptions& = {});
  ~Parameters();

  // Each plan declares its parameters between begin_plan() and end_plan(). The first plan defines the state. The others
  // must declare the same names and shapes. If they do not, an Error names the first difference. Each declare function
  // returns an index.
  void begin_plan(int64_t norm_groups) {
    declared_now_.clear();
    norm_groups_ = std::max(norm_groups_, norm_groups);
  }
  int declare(const Param&);
  int declare_statistic(const Statistic&);
  // Reserves (2 * channels) floats for each norm group: mean and variance. They are averaged over groups and ranks
  // after backward; the first group's place then holds the averages.
  int declare_moments(const std::string& name, int64_t channels);
  // The learning rate of a declared weight is multiplied by *scale in each step.
  void scale_learning_rate(int declared, const float* scale);
  void end_plan();

  // Called after all plans have declared their parameters. training = false: allocates no gradients and velocities.
  void allocate(bool training);
  // Sets the masters as each parameter's Init says, and the velocities to 0. Random values are a function of seed,
  // parameter and element.
  void initialize(uint64_t seed);

  Param& param(int declared) { return params_[position_[size_t(declared)]]; }
  float* ranges() const { return ranges_; }  // the values of all statistics that are ranges, in order of declaration
  Tensor statistic(int index) const { return statistics_[size_t(index)].tensor; }
  float* moments(int index) const { return static_cast<float*>(moments_->data()) + moment_offsets_[size_t(index)]; }
  int64_t moments_of_group() const { return moment_count_; }  // floats from one group's moments to the next group's

  // In backward order, the frozen ones last.
  std::vector<Param>& all() { return params_; }
  const std::vector<Param>& all() const { return params_; }
  std::span<Param> trained() { return std::span(params_).first(trained_); }
  std::span<const Param> trained() const { return std::span(params_).first(trained_); }
  std::vector<Statistic>& statistics() { return statistics_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }
  Tensor all_moments() const { return {moments_->data(), {1, 1, norm_groups_, moment_count_}}; }

  // Chooses the clips of weights that have fewer than 8 bits. Called before encode() and outside Backend::run().
  void choose_clips();
  // Encodes the weights of quantized layers. seed and step select the random bits of stochastic rounding.
  void encode(uint64_t seed, uint32_t step);

  // Moving averages, of trained parameters and of statistics. Nothing happens without ParameterOptions::averages.
  void start_averages();             // with the present values
  void move_averages(double share);  // average += share * (value - average)
  void swap_averages();              // exchanges averages and values; the caller encodes again
  // Where the average of a trained master or a statistic is; the tensor itself if no averages are kept.
  Tensor average(const Tensor&) const;
  bool averages() const { return options_.averages; }

  std::vector<GradientSlice> slices() const;  // one per trained parameter, in order
  Tensor gradient_tensor() const;             // all gradients, flat, on the device
  // Where a layer writes the gradient of one norm group, or of the whole batch; finish_gradient() follows. The layers
  // and groups of a step add up: in the gradient itself, or with exact sums in Param::sum, one `gradient` after the
  // other.
  static Into into(const Param& param) { return {param.gradient, param.written && !param.sum}; }
  void finish_gradient(Param&);
  void begin_gradients();  // called before the first backward pass of a step
  // With exact sums: writes the sums of all norm groups and ranks into the gradients.
  void read_sums();
  void begin_sums();      // called before a step
  bool sums_fit() const;  // false: a gradient of this step was not finite, or too large for fixed point
  bool exact_sums() const { return options_.exact_sums; }
  // What the exchange between ranks adds, flat: the gradients, or with exact sums their sums. On the device, or in host
  // memory for an exchange on the host. If the device's memory is not host memory, the latter is a copy that the first
  // call allocates. copy_gradient() fills the copy, and store_gradients() writes it back to the device.
  GradientBuffer exchanged() const;
  GradientBuffer exchanged_on_host();
  void copy_gradient(size_t param);
  void store_gradients();

  int64_t count() const { return count_; }
  size_t bytes(bool training) const;  // masters and codes; in training also gradients, velocities, sums, averages
  // Called after masters were changed from outside. encode() encodes frozen parameters only after that.
  void masters_changed() { frozen_are_encoded_ = false; }

 private:
  void bind_codes();
  std::vector<Tensor> averaged() const;  // the values of which averages are kept
  void require_new(const std::string& name);
  Param& declared(int index) { return ordered_ ? param(index) : params_[size_t(index)]; }

  const Policy& policy_;
  Backend& backend_;
  const ParameterOptions options_;
  std::vector<Param> params_;
  std::vector<size_t> position_;  // declared index -> index in params_
  std::vector<Statistic> statistics_;
  std::vector<int64_t> moment_offsets_;
  std::map<std::string, int> param_index_, statistic_index_, moment_index_;
  std::set<std::string> declared_now_;
  bool ordered_ = false;
  bool frozen_are_encoded_ = false;
  int64_t count_ = 0, trained_count_ = 0;  // elements of all parameters, and of those that are trained
  int64_t statistics_count_ = 0;           // elements of all statistics
  size_t trained_ = 0;                     // parameters that are trained
  int64_t moment_count_ = 0, norm_groups_ = 1;
  std::unique_ptr<WeightClips> weight_clips_;
  std::unique_ptr<Buffer> masters_, gradients_, velocities_, squares_, codes_, scales_, statistics_memory_, moments_,
      averages_;
  float* ranges_ = nullptr;
  std::unique_ptr<Buffer> sums_, beyond_;
  std::vector<std::byte> host_copy_;  // of what is exchanged
};

}  // namespace octet
