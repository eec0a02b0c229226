#include "src/graph/parameters.h"

#include <algorithm>
#include <cmath>

#include "src/graph/weight_clips.h"

namespace octet {
namespace {

constexpr size_t code_alignment = 64;
size_t aligned_codes(const Param& param) {
  return (size_t(param.shape.elements()) + code_alignment - 1) / code_alignment * code_alignment;
}

// Random initial values of one parameter's elements. The random counter is (seed, stream, element).
struct InitialValues {
  uint64_t seed;
  uint32_t stream;

  Random128 random(int64_t element, int block) const {
    return philox(uint64_t(element) * 4 + uint64_t(block), 0, stream, seed);
  }
  static double uniform(uint32_t word) { return (double(word) + 0.5) / 4294967296.0; }
  // The sum of twelve uniform numbers minus six (Irwin-Hall) approximates a normal distribution. Binary arithmetic
  // computes it exactly, so it is the same on every machine.
  double normal(int64_t element) const {
    double sum = -6;
    for (int block = 0; block < 3; ++block)
      for (const uint32_t word : random(element, block).word) sum += uniform(word);
    return sum;
  }
  // Kaiming: variance 2 / fan_out, as torchvision initializes the convolutions of ResNet and MobileNetV2.
  double value(Init init, const Shape& shape, int64_t element) const {
    switch (init) {
      case Init::kaiming_fan_out:
        return normal(element) * std::sqrt(2.0 / double(shape.n * shape.h * shape.w));
      case Init::normal_001:
        return normal(element) * 0.01;
      case Init::normal_0001:
        return normal(element) * 0.001;
      case Init::linear_uniform:
        return (2 * uniform(random(element, 0).word[0]) - 1) / std::sqrt(double(shape.h * shape.w * shape.c));
      case Init::lecun_uniform:
        return (2 * uniform(random(element, 0).word[0]) - 1) * std::sqrt(3 / double(shape.h * shape.w * shape.c));
      case Init::rare:
        return -4.59511985013459;
      case Init::one:
        return 1;
      case Init::zero:
        break;
    }
    return 0;
  }
};

}  // namespace

ParameterOptions parameter_options(const Config& config) {
  return {.exact_sums = config.comm.exchange == "exact",
          .averages = config.train.ema > 0,
          .squares = config.train.optimizer == "adamw"};
}

Parameters::Parameters(const Policy& policy, Backend& backend, const ParameterOptions& options)
    : policy_(policy), backend_(backend), options_(options) {}
Parameters::~Parameters() = default;

void Parameters::require_new(const std::string& name) {
  REQUIRE(declared_now_.insert(name).second, "give every layer its own name", "two parameters are named ", name);
}

int Parameters::declare(const Param& wanted) {
  const auto known = param_index_.find(wanted.name);
  const bool is_known = known != param_index_.end();
  if (!wanted.shared || !declared_now_.contains(wanted.name)) require_new(wanted.name);
  if (!ordered_ && !is_known) {
    params_.push_back(wanted);
    return param_index_[wanted.name] = int(params_.size()) - 1;
  }
  REQUIRE(is_known && declared(known->second).shape == wanted.shape,
          "build both plans by one function, and give layers that share it one shape", "parameter ", wanted.name,
          " is declared again, but was missing before or had another shape");
  return known->second;
}

int Parameters::declare_statistic(const Statistic& wanted) {
  require_new(wanted.name);
  if (!ordered_) {
    statistics_.push_back(wanted);
    return statistic_index_[wanted.name] = int(statistics_.size()) - 1;
  }
  const auto known = statistic_index_.find(wanted.name);
  REQUIRE(known != statistic_index_.end() && statistic(known->second).shape == wanted.tensor.shape,
          "build both plans by one function", "a second plan declares statistic ", wanted.name,
          ", which the first plan lacks or declares with another shape");
  return known->second;
}

int Parameters::declare_moments(const std::string& name, int64_t channels) {
  require_new(name + " moments");
  if (ordered_) return moment_index_.at(name);
  moment_offsets_.push_back(moment_count_);
  moment_count_ += 2 * channels;
  return moment_index_[name] = int(moment_offsets_.size()) - 1;
}

void Parameters::scale_learning_rate(int declared, const float* scale) { this->declared(declared).lr_scale = scale; }

// Sorts the parameters into backward order: the last node's parameters come first. Within a node norm parameters and
// biases precede the weight. Frozen parameters come last.
void Parameters::end_plan() {
  if (ordered_) return;
  ordered_ = true;
  streams::require_room(params_.size(), std::min(streams::updates.count(), streams::initial_values.count()),
                        "parameters");
  std::vector<size_t> order(params_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Param &pa = params_[a], &pb = params_[b];
    if (pa.frozen != pb.frozen) return pb.frozen;
    return pa.node != pb.node ? pa.node > pb.node : is_weight(pa.kind) < is_weight(pb.kind);
  });
  std::vector<Param> sorted;
  position_.resize(order.size());
  for (const size_t declared : order) {
    position_[declared] = sorted.size();
    sorted.push_back(params_[declared]);
    sorted.back().offset = size_t(count_);
    count_ += sorted.back().shape.elements();
    if (sorted.back().frozen) continue;
    trained_count_ = count_;
    trained_ = sorted.size();
  }
  params_ = std::move(sorted);
}

void Parameters::allocate(bool training) {
  const auto floats = [&](int64_t number) {
    return backend_.allocate(size_t(std::max<int64_t>(number, 1)) * sizeof(float));
  };
  masters_ = floats(count_);
  if (training) gradients_ = floats(trained_count_), velocities_ = floats(trained_count_);
  if (training && options_.squares) squares_ = floats(trained_count_);
  if (training && options_.exact_sums) {
    sums_ = backend_.allocate(size_t(trained_count_) * sizeof(int64_t));
    beyond_ = backend_.allocate(sizeof(int32_t));
  }
  const auto view = [](const std::unique_ptr<Buffer>& buffer, const Param& param) {
    return buffer ? Tensor{static_cast<float*>(buffer->data()) + param.offset, param.shape, DType::f32} : Tensor{};
  };
  for (Param& param : params_) {
    param.master = view(masters_, param);
    if (param.frozen) continue;
    param.gradient = view(gradients_, param);
    param.velocity = view(velocities_, param);
    if (squares_) param.square = view(squares_, param);
    if (sums_) param.sum = static_cast<int64_t*>(sums_->data()) + param.offset;
  }
  bind_codes();
  weight_clips_ = std::make_unique<WeightClips>(backend_, params_);

  int64_t channels = 0;
  for (const Statistic& statistic : statistics_) channels += statistic.tensor.shape.c;
  statistics_memory_ = floats(channels);
  auto* place = static_cast<float*>(statistics_memory_->data());
  for (const bool ranges : {false, true}) {
    if (ranges) ranges_ = place;
    for (Statistic& statistic : statistics_) {
      if (statistic.range != ranges) continue;
      statistic.tensor.data = place;
      place += statistic.tensor.shape.c;
      const std::vector<float> values(size_t(statistic.tensor.shape.c), statistic.initial);
      backend_.to_device(statistic.tensor.data, values.data(), statistic.tensor.bytes());
    }
  }
  moments_ = floats(norm_groups_ * moment_count_);
  statistics_count_ = channels;
  if (training && options_.averages) averages_ = floats(trained_count_ + statistics_count_);
}

void Parameters::bind_codes() {
  size_t bytes = 0, quantized = 0;
  for (const Param& param : params_)
    if (param.encoding.quantized()) bytes += aligned_codes(param), ++quantized;
  codes_ = backend_.allocate(std::max(bytes, code_alignment));
  scales_ = backend_.allocate(std::max(quantized, size_t{1}) * sizeof(float));
  auto* codes = static_cast<int8_t*>(codes_->data());
  auto* scale = static_cast<float*>(scales_->data());
  for (Param& param : params_) {
    if (!param.encoding.quantized()) continue;
    param.codes = {{codes, param.shape, DType::s8}, scale++};
    codes += aligned_codes(param);
  }
}

void Parameters::initialize(uint64_t seed) {
  std::vector<std::string> names;
  for (const Param& param : params_) names.push_back(param.name);
  std::sort(names.begin(), names.end());
  for (Param& param : params_) {
    // The stream follows from the name, so a parameter's values do not depend on its position.
    const auto place = std::lower_bound(names.begin(), names.end(), param.name) - names.begin();
    const InitialValues values{seed, streams::initial_values.at(uint64_t(place))};
    const Shape& shape = param.shape;
    std::vector<float> master(size_t(shape.elements()));
    const bool by_policy =
        is_weight(param.kind) && policy_.initialize({master.data(), shape, DType::f32}, shape.h * shape.w * shape.c,
                                                    param.full_precision, {seed, 0, values.stream, 0});
    for (int64_t i = 0; !by_policy && i < shape.elements(); ++i)
      master[size_t(i)] = float(values.value(param.init, shape, i));
    backend_.to_device(param.master.data, master.data(), param.master.bytes());
    std::fill(master.begin(), master.end(), 0.0f);
    for (const Tensor& tensor : {param.velocity, param.square, param.gradient})
      if (tensor) backend_.to_device(tensor.data, master.data(), tensor.bytes());
  }
}

void Parameters::choose_clips() { weight_clips_->choose(); }

void Parameters::encode(uint64_t seed, uint32_t step) {
  const auto is_encoded = [&](const Param& param) {
    return param.encoding.quantized() && !(param.frozen && frozen_are_encoded_);
  };
  std::vector<QuantizeCall> calls;
  for (const Param& param : params_)
    if (is_encoded(param))
      calls.push_back({param.master, param.encoding, {seed, step, layer_id_of(param.node, Role::weight)}, param.codes});
  backend_.quantize_all(calls);
  for (const Param& param : params_) {
    const Shape& s = param.shape;
    const float gain = is_encoded(param) ? policy_.weight_gain(s.h * s.w * s.c) : 1;
    if (gain != 1) *param.codes.scale *= gain;
  }
  frozen_are_encoded_ = true;
}

// Both tensors are whole buffers, since the elements of a buffer have one treatment.
std::vector<Tensor> Parameters::averaged() const {
  if (!averages_) return {};
  return {{masters_->data(), {1, 1, 1, trained_count_}}, {statistics_memory_->data(), {1, 1, 1, statistics_count_}}};
}

Tensor Parameters::average(const Tensor& tensor) const {
  auto* place = averages_ ? static_cast<float*>(averages_->data()) : nullptr;
  for (const Tensor& values : averaged()) {
    if (tensor.f32() >= values.f32() && tensor.f32() < values.f32() + values.elements())
      return {place + (tensor.f32() - values.f32()), tensor.shape, tensor.dtype};
    place += values.elements();
  }
  return tensor;
}

void Parameters::move_averages(double share) {
  for (const Tensor& values : averaged()) backend_.move_average(float(share), values, average(values));
}

void Parameters::start_averages() {
  std::vector<float> copy;
  for (const Tensor& values : averaged()) {
    copy.resize(size_t(values.elements()));
    backend_.to_host(copy.data(), values.data, values.bytes());
    backend_.to_device(average(values).data, copy.data(), values.bytes());
  }
}

void Parameters::swap_averages() {
  std::vector<float> present, mean;
  for (const Tensor& values : averaged()) {
    present.resize(size_t(values.elements()));
    mean.resize(present.size());
    backend_.to_host(present.data(), values.data, values.bytes());
    backend_.to_host(mean.data(), average(values).data, values.bytes());
    backend_.to_device(values.data, mean.data(), values.bytes());
    backend_.to_device(average(values).data, present.data(), values.bytes());
  }
}

std::vector<GradientSlice> Parameters::slices() const {
  std::vector<GradientSlice> slices;
  for (const Param& param : trained())
    slices.push_back({param.offset, size_t(param.shape.elements()), !is_weight(param.kind)});
  return slices;
}

Tensor Parameters::gradient_tensor() const { return {params_.front().gradient.data, {1, 1, 1, trained_count_}}; }

void Parameters::begin_gradients() {
  for (Param& param : params_) param.written = false;
}

void Parameters::finish_gradient(Param& param) {
  if (param.sum) backend_.add_fixed(param.gradient, param.sum, param.written, static_cast<int32_t*>(beyond_->data()));
  param.written = true;
}

void Parameters::read_sums() { backend_.read_fixed(static_cast<const int64_t*>(sums_->data()), gradient_tensor()); }

void Parameters::begin_sums() {
  const int32_t none = 0;
  backend_.to_device(beyond_->data(), &none, sizeof none);
}

bool Parameters::sums_fit() const {
  int32_t beyond = 0;
  backend_.to_host(&beyond, beyond_->data(), sizeof beyond);
  return beyond == 0;
}

GradientBuffer Parameters::exchanged() const {
  if (options_.exact_sums) return std::span(static_cast<int64_t*>(sums_->data()), size_t(trained_count_));
  return std::span(gradient_tensor().f32(), size_t(trained_count_));
}

GradientBuffer Parameters::exchanged_on_host() {
  if (backend_.host_memory()) return exchanged();
  host_copy_.resize(size_t(trained_count_) * (options_.exact_sums ? sizeof(int64_t) : sizeof(float)));
  if (options_.exact_sums) return std::span(reinterpret_cast<int64_t*>(host_copy_.data()), size_t(trained_count_));
  return std::span(reinterpret_cast<float*>(host_copy_.data()), size_t(trained_count_));
}

void Parameters::copy_gradient(size_t index) {
  if (host_copy_.empty()) return;
  const Param& param = params_[index];
  const size_t size = host_copy_.size() / size_t(trained_count_);
  const void* const from = options_.exact_sums ? static_cast<const void*>(param.sum) : param.gradient.data;
  backend_.to_host(host_copy_.data() + param.offset * size, from, size_t(param.shape.elements()) * size);
}

void Parameters::store_gradients() {
  if (host_copy_.empty()) return;
  backend_.to_device(options_.exact_sums ? sums_->data() : gradients_->data(), host_copy_.data(), host_copy_.size());
}

size_t Parameters::bytes(bool training) const {
  size_t bytes = size_t(count_ + (training ? 2 * trained_count_ : 0)) * sizeof(float);
  if (training && options_.exact_sums) bytes += size_t(trained_count_) * sizeof(int64_t);
  if (training && options_.averages) bytes += size_t(trained_count_) * sizeof(float);
  if (training && options_.squares) bytes += size_t(trained_count_) * sizeof(float);
  for (const Param& param : params_)
    if (param.encoding.quantized()) bytes += size_t(param.shape.elements());
  return bytes;
}

}  // namespace octet
