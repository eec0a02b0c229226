// A network's state, whatever batch it runs on: parameters with their gradients and velocities, the codes that layers
// compute with, and the running statistics of norms. Several plans share one state.
#pragma once
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
enum class Init : uint8_t { kaiming_fan_out, linear_uniform, normal_001, one, zero };

struct Param {
  std::string name;  // torchvision's, for example layer1.0.conv1.weight
  ParamKind kind = ParamKind::conv_weight;
  Shape shape;  // weights OHWI; others (1, 1, 1, C)
  Init init = Init::zero;
  bool full_precision = false;  // as in UpdateContext
  int node = 0;
  Encoding encoding = {};           // s8: the layer computes with `codes`, which each step encodes from `master`
  const float* lr_scale = nullptr;  // kept by the ClipCoordinator; null means 1

  size_t offset = 0;                                 // in the flat buffers, which lie in backward order
  Tensor master = {}, gradient = {}, velocity = {};  // f32 views of the flat buffers
  QTensor codes = {};

  QTensor operand() const { return encoding.quantized() ? codes : QTensor{master}; }
};

// Not trained, but saved: bn1.running_mean, bn1.running_var. Identical on every rank.
struct Statistic {
  std::string name;
  Tensor tensor;               // (1, 1, 1, C) f32
  float initial = 0;           // value of every element before step 1
  bool training_only = false;  // evaluation does not read it: in checkpoints, not in files of weights
};

class Parameters {
 public:
  Parameters(const Policy&, Backend&);
  ~Parameters();

  // A plan declares between begin_plan() and end_plan(). The first plan's declarations make the state; the others must
  // declare the same names and shapes, else an Error names the first that differs. Each call returns an index.
  void begin_plan() { declared_now_.clear(); }
  int declare(const Param&);
  int declare_statistic(const Statistic&);
  // Room for (2 * channels) floats that all ranks average after backward: a norm's batch mean and variance.
  int declare_moments(const std::string& name, int64_t channels);
  // The learning rate of a declared weight is multiplied by *scale in each step.
  void scale_learning_rate(int declared, const float* scale);
  void end_plan();

  // After all plans have declared. training: false: without gradients and velocities.
  void allocate(bool training);
  // Fills masters by each parameter's Init, a function of (seed, parameter, element), and sets velocities to 0.
  void initialize(uint64_t seed);

  Param& param(int declared) { return params_[position_[size_t(declared)]]; }
  Tensor statistic(int index) const { return statistics_[size_t(index)].tensor; }
  float* moments(int index) const { return static_cast<float*>(moments_->data()) + moment_offsets_[size_t(index)]; }

  std::vector<Param>& all() { return params_; }  // in backward order
  const std::vector<Param>& all() const { return params_; }
  std::vector<Statistic>& statistics() { return statistics_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }
  Tensor all_moments() const { return {moments_->data(), {1, 1, 1, moment_count_}}; }

  // Chooses the clips of weights of fewer than 8 bits; before encode(), outside Backend::run().
  void choose_clips();
  // Encodes the weights of quantized layers. seed, step: of the random bits.
  void encode(uint64_t seed, uint32_t step);

  std::vector<GradientSlice> slices() const;  // one per parameter, in order
  Tensor gradient_tensor() const;             // all gradients, flat, on the device
  // All gradients, flat, for an exchange that reads the host's memory: the device's own memory, or a copy, made by the
  // first call, that copy_gradient() fills and store_gradients() brings back.
  std::span<float> gradients();
  void copy_gradient(size_t param);
  void store_gradients();

  int64_t count() const { return count_; }
  size_t bytes(bool training) const;  // masters and codes; training: gradients and velocities too

 private:
  void bind_codes();
  bool first_of_plan(const std::string& name);

  const Policy& policy_;
  Backend& backend_;
  std::vector<Param> params_;
  std::vector<size_t> position_;  // declared index -> index in params_
  std::vector<Statistic> statistics_;
  std::vector<int64_t> moment_offsets_;
  std::map<std::string, int> param_index_, statistic_index_, moment_index_;
  std::set<std::string> declared_now_;
  bool ordered_ = false;
  int64_t count_ = 0, moment_count_ = 0;
  std::unique_ptr<WeightClips> weight_clips_;
  std::unique_ptr<Buffer> masters_, gradients_, velocities_, codes_, scales_, statistics_memory_, moments_;
  std::vector<float> gradient_copy_;
};

}  // namespace octet
