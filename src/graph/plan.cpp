#include "src/graph/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "src/graph/arena.h"
#include "src/graph/encodings.h"

namespace octet {

// Node i runs forward at time i and backward at time 2 n - 1 - i; a block's life is a pair of such times.
class Plan::Builder final : public Declare, public Bound {
 public:
  Builder(Plan& plan, const Policy& policy, ClipCoordinator* clips, const PlanOptions& options)
      : plan_(plan), policy_(policy), clips_(clips), options_(options), nodes_(plan.graph_.nodes()) {
    const size_t edges = size_t(plan.graph_.edges());
    shapes_.resize(edges);
    producer_.assign(edges, -1);
    consumers_.resize(edges);
    read_backward_.assign(edges, -1);
  }

  void build() {
    REQUIRE_USAGE(!policy_.computes_on_host() || plan_.backend_.host_memory(),
                  "set backend.device to cpu, or policy.name to unified_int8 or fp32", "policy ", policy_.name(),
                  " computes on the processor and cannot train on backend ", plan_.backend_.name());
    infer_shapes();
    encodings_ = choose_encodings(policy_, nodes_, shapes_, producer_, consumers_);
    plan_.node_params_.resize(nodes_.size());
    plan_.node_bytes_.assign(nodes_.size(), 0);
    for (auto& node : nodes_) {
      current_ = node->index();
      node->declare(*this);
    }
    order_parameters();
    place();
    if (!options_.allocate) return;
    bind_parameters();
    bind_batch();
    for (auto& node : nodes_) node->bind(*this);
  }

  // -- Declare
  const Policy& policy() const override { return policy_; }
  DType storage() const override { return options_.storage; }
  Shape shape(Edge edge) const override { return shapes_[edge.id]; }
  const Encoding& encoding(Edge edge) const override { return encodings_[edge.id]; }
  bool needs_gradient(Edge edge) const override { return producer_[edge.id] > 0; }
  void reads_in_backward(Edge edge) override {
    read_backward_[edge.id] = std::max(read_backward_[edge.id], backward_time(current_));
  }
  Slot keep(Shape shape, DType dtype, Need need) override {
    MemoryBlock block;
    block.bytes = size_t(shape.elements()) * size_of(dtype);
    block.first = need == Need::backward ? backward_time(current_) : current_;
    block.last = need == Need::forward ? current_ : backward_time(current_);
    plan_.node_bytes_[current_] += block.bytes;
    slot_blocks_.push_back(block);
    plan_.memory_.slots.push_back({nullptr, shape, dtype});
    return {int(slot_blocks_.size()) - 1};
  }
  int param(const std::string& name, ParamKind kind, Shape shape, Init init, const Encoding& encoding,
            bool spared) override {
    Param param;
    param.name = name;
    param.kind = kind;
    param.shape = shape;
    param.init = init;
    param.spared = spared;
    param.node = current_;
    param.encoding = encoding;
    declared_.push_back(param);
    return int(declared_.size()) - 1;
  }
  int statistic(const std::string& name, int64_t channels, float initial, bool of_training) override {
    plan_.statistics_.push_back({name, {nullptr, {1, 1, 1, channels}, DType::f32}, of_training});
    initial_.push_back(initial);
    return int(plan_.statistics_.size()) - 1;
  }
  int shared_moments(int64_t channels) override {
    const int offset = int(moments_);
    moments_ += size_t(2 * channels);
    return offset;
  }
  int clip_layer(const std::string& name, int weight_param) override {
    if (!clips_) return -1;
    const int layer = clips_->add_layer(name);
    declared_[size_t(weight_param)].lr_scale = clips_->lr_scale(layer);
    return layer;
  }
  int loss(float weight) override {
    plan_.loss_weights_.push_back(weight);
    return int(plan_.loss_weights_.size()) - 1;
  }

  // -- Bound
  Param& param(int declared) override { return plan_.params_[position_[declared]]; }
  Statistic& statistic(int index) override { return plan_.statistics_[index]; }
  float* shared_moments(int offset) override { return plan_.shared_moments_ + offset; }

 private:
  int backward_time(int node) const { return 2 * int(nodes_.size()) - 1 - node; }

  void infer_shapes() {
    for (auto& node : nodes_) {
      std::vector<Shape> inputs;
      for (Edge edge : node->inputs()) {
        inputs.push_back(shapes_[edge.id]);
        consumers_[edge.id].push_back(node->index());
      }
      Shape shape = node->output_shape(inputs);
      if (node->index() == 0) shape.n = plan_.batch_;
      if (node->output().id < 0) continue;
      shapes_[node->output().id] = shape;
      producer_[node->output().id] = node->index();
    }
  }

  // Backward order: the last node's parameters first; within a node norm parameters and bias before the weight.
  void order_parameters() {
    std::vector<int> order(declared_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const Param &pa = declared_[a], &pb = declared_[b];
      if (pa.node != pb.node) return pa.node > pb.node;
      return is_weight(pa.kind) < is_weight(pb.kind);
    });
    position_.resize(order.size());
    size_t offset = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      position_[order[i]] = i;
      Param param = declared_[order[i]];
      param.offset = offset;
      offset += size_t(param.shape.elements());
      plan_.node_params_[param.node].push_back(i);
      plan_.params_.push_back(std::move(param));
    }
    plan_.parameter_count_ = int64_t(offset);
    std::map<std::string, int> names;
    for (const Param& param : plan_.params_)
      REQUIRE(++names[param.name] == 1, "give every layer its own name", "two parameters are named ", param.name);
  }

  void place() {
    std::vector<MemoryBlock> blocks = slot_blocks_;
    std::vector<std::pair<size_t, size_t>> edge_blocks(shapes_.size(), {SIZE_MAX, SIZE_MAX});  // value, gradient
    const int n = int(nodes_.size());
    for (size_t edge = 0; edge < shapes_.size(); ++edge) {
      const int last_consumer = consumers_[edge].empty() ? producer_[edge] : consumers_[edge].back();
      const DType dtype = encodings_[edge].dtype;
      MemoryBlock value{size_t(shapes_[edge].elements()) * size_of(dtype), producer_[edge],
                        std::max(last_consumer, read_backward_[edge]), 0};
      edge_blocks[edge].first = blocks.size();
      plan_.node_bytes_[producer_[edge]] += value.bytes;
      blocks.push_back(value);
      plan_.memory_.values.push_back({{nullptr, shapes_[edge], dtype}});
      const DType narrow = options_.storage == DType::s8 ? DType::bf16 : options_.storage;
      const DType gradient_type = encodings_[edge].quantized() ? narrow : DType::f32;
      plan_.memory_.gradients.push_back({nullptr, shapes_[edge], gradient_type});
      if (!needs_gradient(Edge{int(edge)})) continue;
      // The loss, which is the last node, writes its gradient while it runs forward.
      const int first = last_consumer == n - 1 ? n - 1 : backward_time(last_consumer);
      edge_blocks[edge].second = blocks.size();
      blocks.push_back(
          {size_t(shapes_[edge].elements()) * size_of(gradient_type), first, backward_time(producer_[edge]), 0});
    }
    plan_.arena_bytes_ = place_blocks(blocks, options_.own_slots);
    plan_.memory_.written.assign(shapes_.size(), false);
    if (!options_.allocate) return;

    require_memory();
    auto* base = static_cast<std::byte*>(add_buffer(plan_.arena_bytes_));
    for (size_t slot = 0; slot < slot_blocks_.size(); ++slot)
      plan_.memory_.slots[slot].data = base + blocks[slot].offset;
    auto* scales = static_cast<float*>(add_buffer(shapes_.size() * sizeof(float)));
    for (size_t edge = 0; edge < shapes_.size(); ++edge) {
      QTensor& value = plan_.memory_.values[edge];
      value.values.data = base + blocks[edge_blocks[edge].first].offset;
      if (encodings_[edge].quantized()) value.scale = scales + edge;
      if (edge_blocks[edge].second != SIZE_MAX)
        plan_.memory_.gradients[edge].data = base + blocks[edge_blocks[edge].second].offset;
    }
  }

  // Known before step 1: what a device lacks, and which batch it would hold. A tenth is left to the kernels' own
  // scratch.
  void require_memory() const {
    // Images twice: of the step, and of the next one on their way.
    const double images =
        plan_.backend_.host_memory() ? 0 : 2 * sizeof(float) * double(shapes_[nodes_.front()->output().id].elements());
    const double needed = double(plan_.arena_bytes_) + double(plan_.parameter_bytes()) + images;
    const double available = 0.9 * double(std::min<size_t>(plan_.backend_.free_bytes(), size_t{1} << 60));
    const double per_sample = (double(plan_.arena_bytes_) + images) / double(plan_.batch_);
    const auto fitting = int64_t((available - double(plan_.parameter_bytes())) / per_sample);
    REQUIRE_USAGE(needed <= available,
                  fitting > 0 ? say("set data.batch to at most ", fitting, " per rank, or use more ranks")
                              : std::string("use a smaller network or image_size, or a device with more memory"),
                  "the plan needs ", needed / 1e9, " GB for ", plan_.batch_, " samples per rank; this device has ",
                  available / 1e9, " GB to give, ", (needed - available) / 1e9, " GB too little");
  }

  void* add_buffer(size_t bytes) {
    plan_.buffers_.push_back(plan_.backend_.allocate(std::max<size_t>(bytes, 64)));
    return plan_.buffers_.back()->data();
  }

  void bind_parameters() {
    const size_t bytes = size_t(plan_.parameter_count_) * sizeof(float);
    auto* masters = static_cast<float*>(add_buffer(bytes));
    auto* gradients = static_cast<float*>(add_buffer(bytes));
    auto* velocities = static_cast<float*>(add_buffer(bytes));
    size_t code_bytes = 0, code_scales = 0;
    for (const Param& param : plan_.params_) {
      if (!param.encoding.quantized()) continue;
      code_bytes += (size_t(param.shape.elements()) + 63) / 64 * 64;
      ++code_scales;
    }
    auto* codes = static_cast<int8_t*>(add_buffer(code_bytes));
    auto* scales = static_cast<float*>(add_buffer(code_scales * sizeof(float)));
    for (Param& param : plan_.params_) {
      param.master = {masters + param.offset, param.shape, DType::f32};
      param.gradient = {gradients + param.offset, param.shape, DType::f32};
      param.velocity = {velocities + param.offset, param.shape, DType::f32};
      if (!param.encoding.quantized()) continue;
      param.codes = {{codes, param.shape, DType::s8}, scales};
      codes += (size_t(param.shape.elements()) + 63) / 64 * 64;
      ++scales;
    }
    plan_.weight_clips_ = std::make_unique<WeightClips>(plan_.backend_, plan_.params_);
    size_t channels = 0;
    for (const Statistic& statistic : plan_.statistics_) channels += size_t(statistic.tensor.shape.c);
    auto* values = static_cast<float*>(add_buffer(channels * sizeof(float)));
    for (size_t i = 0; i < plan_.statistics_.size(); ++i) {
      Tensor& tensor = plan_.statistics_[i].tensor;
      tensor.data = values;
      const std::vector<float> initial(size_t(tensor.shape.c), initial_[i]);
      plan_.backend_.to_device(values, initial.data(), initial.size() * sizeof(float));
      values += tensor.shape.c;
    }
    plan_.shared_moments_ = static_cast<float*>(add_buffer(moments_ * sizeof(float)));
    plan_.shared_moment_count_ = int64_t(moments_);
  }

  void bind_batch() {
    plan_.image_floats_ = shapes_[nodes_.front()->output().id].elements();
    plan_.classes_ = shapes_[nodes_.back()->inputs().front().id].c;
    plan_.memory_.losses = static_cast<LossReport*>(add_buffer(plan_.loss_weights_.size() * sizeof(LossReport)));
    plan_.nonfinite_ = static_cast<int32_t*>(add_buffer(sizeof(int32_t)));
    if (plan_.backend_.host_memory()) return;
    const size_t image_bytes = size_t(plan_.image_floats_) * sizeof(float);
    plan_.images_ = static_cast<float*>(add_buffer(image_bytes));
    plan_.upload_ = plan_.backend_.make_upload(image_bytes);
    plan_.labels_ = static_cast<int32_t*>(add_buffer(size_t(plan_.batch_) * sizeof(int32_t)));
  }

  Plan& plan_;
  const Policy& policy_;
  ClipCoordinator* clips_;
  PlanOptions options_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  int current_ = 0;
  std::vector<Shape> shapes_;
  std::vector<Encoding> encodings_;  // of every edge
  std::vector<int> producer_, read_backward_;
  std::vector<std::vector<int>> consumers_;
  std::vector<MemoryBlock> slot_blocks_;
  std::vector<Param> declared_;
  std::vector<size_t> position_;  // declared index -> index in backward order
  std::vector<float> initial_;
  size_t moments_ = 0;
};

Plan::Plan(Graph graph, const Policy& policy, Backend& backend, ClipCoordinator* clips, int64_t batch,
           const PlanOptions& options)
    : graph_(std::move(graph)), policy_(policy), backend_(backend), batch_(batch), poison_(options.poison) {
  Builder(*this, policy, clips, options).build();
}

Plan::~Plan() = default;

void Plan::load(Step& step, const float* images, const int32_t* labels, bool sent) {
  for (int64_t sample = 0; sample < batch_; ++sample)
    REQUIRE(labels[sample] >= -1 && labels[sample] < classes_, "give labels in [0, classes), or -1 for padding",
            "sample ", sample, " has label ", labels[sample], " of ", classes_, " classes");
  step.images = images;
  step.labels = labels;
  if (images_ == nullptr) return;
  if (sent)
    upload_->finish(images_);
  else
    backend_.to_device(images_, images, size_t(image_floats_) * sizeof(float));
  backend_.to_device(labels_, labels, size_t(batch_) * sizeof(int32_t));
  step.images = images_;
  step.labels = labels_;
}

void Plan::find_nonfinite() { backend_.find_nonfinite(gradient_tensor(), nonfinite_); }

Plan::Outcome Plan::outcome(bool training) {
  std::vector<LossReport> reports(loss_weights_.size());
  int32_t nonfinite = 0;
  backend_.to_host(reports.data(), memory_.losses, reports.size() * sizeof(LossReport));
  backend_.to_host(&nonfinite, nonfinite_, sizeof nonfinite);
  // The first head's figures are the step's; the others' losses add to what is minimized.
  Outcome outcome{reports.front(), nonfinite == 0};
  for (size_t head = 1; training && head < reports.size(); ++head)
    outcome.loss.loss_sum += double(loss_weights_[head]) * reports[head].loss_sum;
  return outcome;
}

void Plan::encode_weights(Step& step) {
  Timed timed(step.times, Phase::quantize);
  for (const Param& param : params_) {
    if (!param.encoding.quantized()) continue;
    backend_.quantize(param.master, param.encoding, step.key(param.node, Role::weight, 0), param.codes, {});
    const Shape& s = param.shape;
    const float gain = policy_.weight_gain(s.h * s.w * s.c);
    if (gain != 1) *param.codes.scale *= gain;
  }
}

void Plan::forward(Step& step) {
  if (poison_) {
    // NaN as f32 and as bf16, and one that stays NaN when it is rounded to fewer bits, as 0xFFFFFFFF might not.
    const size_t bytes = buffers_.front()->bytes();
    const std::vector<uint32_t> poison(bytes / sizeof(uint32_t), 0x7FC07FC0u);
    backend_.to_device(buffers_.front()->data(), poison.data(), bytes);
  }
  for (auto& node : graph_.nodes()) node->forward(step);
}

void Plan::backward(Step& step, GradientExchange& exchange) {
  std::fill(memory_.written.begin(), memory_.written.end(), false);
  for (size_t i = graph_.nodes().size(); i-- > 0;) {
    graph_.nodes()[i]->backward(step);
    for (size_t param : node_params_[i]) {
      if (exchange.reads_gradients() && !gradient_copy_.empty()) {
        const Tensor& gradient = params_[param].gradient;
        backend_.to_host(gradient_copy_.data() + params_[param].offset, gradient.data, gradient.bytes());
      }
      exchange.ready(param);
    }
  }
}

void Plan::commit(Step& step) {
  for (auto& node : graph_.nodes()) node->commit(step);
}

std::string Plan::first_nonfinite(Step& step) {
  for (const Param& param : params_)
    if (!backend_.all_finite(param.master)) return param.name;
  for (auto& node : graph_.nodes()) {
    node->forward(step);  // backward may have written over what it kept
    const Tensor watched = node->watched(step);
    if (watched && !backend_.all_finite(watched)) return node->name();
  }
  for (const Param& param : params_)  // in backward order: the first is where it began
    if (!backend_.all_finite(param.gradient)) return "gradient of " + param.name;
  return {};
}

std::span<float> Plan::gradients() {
  if (backend_.host_memory()) return {gradient_tensor().f32(), size_t(parameter_count_)};
  gradient_copy_.resize(size_t(parameter_count_));
  return gradient_copy_;
}

void Plan::store_gradients() {
  if (!gradient_copy_.empty())
    backend_.to_device(gradient_tensor().data, gradient_copy_.data(), gradient_copy_.size() * sizeof(float));
}

Tensor Plan::gradient_tensor() const { return {params_.front().gradient.data, {1, 1, 1, parameter_count_}}; }

std::vector<GradientSlice> Plan::slices() const {
  std::vector<GradientSlice> slices;
  for (const Param& param : params_)
    slices.push_back({param.offset, size_t(param.shape.elements()), !is_weight(param.kind)});
  return slices;
}

size_t Plan::parameter_bytes() const {
  size_t bytes = size_t(parameter_count_) * 3 * sizeof(float);
  for (const Param& param : params_)
    if (param.encoding.quantized()) bytes += size_t(param.shape.elements());
  return bytes;
}

// Kaiming: normal with variance 2 / fan_out, as torchvision initializes the convolutions of ResNet and MobileNetV2;
// here InceptionV3's too, and all biases are 0. A normal number is the sum of twelve uniform ones less six
// (Irwin-Hall): exact in binary arithmetic, so the same on every machine.
void Plan::initialize_parameters(uint64_t seed) {
  std::vector<std::string> names;
  for (const Param& param : params_) names.push_back(param.name);
  std::sort(names.begin(), names.end());
  for (Param& param : params_) {
    const auto site = uint32_t(std::lower_bound(names.begin(), names.end(), param.name) - names.begin()) | 0x80000000u;
    const Shape& shape = param.shape;
    std::vector<float> master(size_t(shape.elements()));
    const double fan_out = double(shape.n * shape.h * shape.w), fan_in = double(shape.h * shape.w * shape.c);
    const auto uniform = [](uint32_t word) { return (double(word) + 0.5) / 4294967296.0; };
    const auto random = [&](int64_t i, int block) { return philox(uint64_t(i) * 4 + uint64_t(block), 0, site, seed); };
    const auto normal = [&](int64_t i) {
      double sum = -6;
      for (int block = 0; block < 3; ++block)
        for (const uint32_t word : random(i, block).word) sum += uniform(word);
      return sum;
    };
    const bool own = is_weight(param.kind) && policy_.initialize({master.data(), shape, DType::f32}, int64_t(fan_in),
                                                                 param.spared, {seed, 0, site, 0});
    for (int64_t i = 0; !own && i < shape.elements(); ++i) {
      double value = 0;
      switch (param.init) {
        case Init::kaiming_fan_out:
          value = normal(i) * std::sqrt(2.0 / fan_out);
          break;
        case Init::normal_001:
          value = normal(i) * 0.01;
          break;
        case Init::linear_uniform:
          value = (2 * uniform(random(i, 0).word[0]) - 1) / std::sqrt(fan_in);
          break;
        case Init::one:
          value = 1;
          break;
        case Init::zero:
          break;
      }
      master[size_t(i)] = float(value);
    }
    backend_.to_device(param.master.data, master.data(), param.master.bytes());
    std::fill(master.begin(), master.end(), 0.0f);
    backend_.to_device(param.velocity.data, master.data(), param.velocity.bytes());
    backend_.to_device(param.gradient.data, master.data(), param.gradient.bytes());
  }
}

Work Plan::work() const {
  Work work;
  for (const auto& node : graph_.nodes()) {
    const Work part = node->work(memory_);
    work.products += part.products;
    work.real_products += part.real_products;
    work.convolution_bytes += part.convolution_bytes;
    work.pass_bytes += part.pass_bytes;
  }
  for (const Param& param : params_) {
    work.update_bytes += 5 * int64_t(param.master.bytes());  // master, gradient, velocity; master and velocity written
    if (param.encoding.quantized()) work.update_bytes += int64_t(param.master.bytes() + param.codes.values.bytes());
  }
  return work;
}

std::string Plan::describe() const {
  std::string text = fmt::format("{:<28} {:<16} {:<20} {:<8} {:>12} {:>12}\n", "node", "kind", "output (NHWC)", "value",
                                 "bytes", "parameters");
  for (const auto& node : graph_.nodes()) {
    const Edge output = node->output();
    std::string shape = "-", value = "-";
    if (output.id >= 0) {
      const QTensor& edge = memory_.values[output.id];
      const Shape& s = edge.values.shape;
      shape = fmt::format("{}x{}x{}x{}", s.n, s.h, s.w, s.c);
      value = name_of(edge.values.dtype);
    }
    int64_t parameters = 0;
    for (size_t index : node_params_[node->index()]) parameters += params_[index].shape.elements();
    text += fmt::format("{:<28} {:<16} {:<20} {:<8} {:>12} {:>12}\n", node->name(), node->kind(), shape, value,
                        node_bytes_[node->index()], parameters);
  }
  return text;
}

}  // namespace octet
