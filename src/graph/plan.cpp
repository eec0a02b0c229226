#include "src/graph/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/terminal.h"
#include "kernels/base/text.h"
namespace octet {

Plan::Plan(Graph graph, Parameters& parameters, const Policy& policy, Backend& backend, const HeldRanges& held,
           int64_t batch, const PlanOptions& options)
    : graph_(std::move(graph)),
      parameters_(parameters),
      policy_(policy),
      backend_(backend),
      batch_(batch),
      options_(options),
      layout_(graph_, parameters, policy, held, batch, options_),
      memory_(layout_.memory),
      node_params_(graph_.nodes().size()) {
  for (size_t i = 0; i < parameters.all().size(); ++i) node_params_[size_t(parameters.all()[i].node)].push_back(i);
}

Plan::~Plan() = default;

// The number of samples that are no padding and no bad images.
static int64_t present(const Targets& targets, int64_t batch) {
  if (targets.truth)
    return std::ranges::count_if(targets.truth->images, [](const Truth::Image& image) { return image.index >= 0; });
  return std::count_if(targets.labels, targets.labels + batch, [](int32_t label) { return label >= 0; });
}

size_t Plan::image_bytes() const {
  const Shape& shape = layout_.shapes[size_t(graph_.nodes().front()->output().id)];
  return options_.pixels ? size_t(shape.pixels() * pixel_channels) : size_t(shape.elements()) * sizeof(float);
}

void* Plan::add_buffer(size_t bytes) {
  buffers_.push_back(backend_.allocate(std::max<size_t>(bytes, 64)));
  return buffers_.back()->data();
}

void Plan::bind(std::span<std::byte> arena) {
  arena_ = arena;
  layout_.bind(memory_, arena.data(), static_cast<float*>(add_buffer(layout_.shapes.size() * sizeof(float))));
  for (const size_t bytes : layout_.input_bytes) memory_.inputs.push_back(add_buffer(bytes));
  memory_.losses = static_cast<LossReport*>(add_buffer(layout_.losses.size() * sizeof(LossReport)));
  nonfinite_ = static_cast<int32_t*>(add_buffer(sizeof(int32_t)));
  if (!backend_.host_memory()) {
    images_ = add_buffer(image_bytes());
    upload_ = backend_.make_upload(image_bytes());
  }
  for (auto& node : graph_.nodes()) node->bind(parameters_);
}

// Checks before step 1 that the device has enough memory, else says which batch would fit. A tenth of the memory is
// left for the kernels' scratch buffers.
static void require_memory(Backend& backend, const Parameters& parameters, std::span<Plan* const> plans, size_t arena,
                           bool training) {
  // Images of each plan, and those that are uploaded in advance.
  double images = 0;
  for (const Plan* plan : plans)
    if (!backend.host_memory()) images += 2 * double(plan->image_bytes());
  const double fixed = double(parameters.bytes(training)), needed = double(arena) + fixed + images;
  const double available = 0.9 * double(std::min<size_t>(backend.free_bytes(), size_t{1} << 60));
  const int64_t batch = plans.front()->batch();
  const auto fitting = int64_t((available - fixed) / ((double(arena) + images) / double(batch)));
  REQUIRE_USAGE(needed <= available,
                fitting > 0 ? say("set data.batch to at most ", fitting, " per rank, or use more ranks")
                            : std::string("use a smaller network or image_size, or a device with more memory"),
                "the plan needs ", needed / 1e9, " GB for ", batch, " samples per rank; ",
                backend.host_memory() ? "this rank" : "this device", " has ", available / 1e9, " GB to give, ",
                (needed - available) / 1e9, " GB too little");
}

std::unique_ptr<Buffer> bind_plans(Backend& backend, Parameters& parameters, std::span<Plan* const> plans) {
  size_t bytes = 64;
  for (const Plan* plan : plans) bytes = std::max(bytes, plan->arena_bytes());
  const bool training = plans.front()->options_.training;
  require_memory(backend, parameters, plans, bytes, training);
  parameters.allocate(training);  // after the check, which counts them too
  auto arena = backend.allocate(bytes);
  for (Plan* plan : plans) plan->bind({static_cast<std::byte*>(arena->data()), plan->arena_bytes()});
  return arena;
}

void Plan::load(Step& step, const void* images, const Targets& targets, bool sent) {
  samples_ = double(present(targets, batch_));
  for (auto& node : graph_.nodes()) node->load(targets, step);
  step.images = images_ == nullptr ? images : images_;
  if (layout_.pixel_edge >= 0) memory_.values[size_t(layout_.pixel_edge)].values.data = const_cast<void*>(step.images);
  if (images_ == nullptr) return;
  if (sent)
    upload_->finish(images_);
  else
    backend_.to_device(images_, images, image_bytes());
}

void Plan::forward(Step& step) {
  if (options_.poison) {
    // NaN as f32 and as bf16. It stays NaN when it is rounded to fewer bits; 0xFFFFFFFF might not.
    const std::vector<uint32_t> poison(arena_.size() / sizeof(uint32_t), 0x7FC07FC0u);
    backend_.to_device(arena_.data(), poison.data(), arena_.size());
  }
  std::fill(memory_.written.begin(), memory_.written.end(), Written::nothing);
  for (auto& node : graph_.nodes()) {
    if (step.times) step.times->node = node->name();
    node->forward(step);
  }
  if (step.times) step.times->node.clear();
}

void Plan::backward(Step& step, GradientExchange* exchange) {
  for (size_t i = graph_.nodes().size(); i-- > 0;) {
    if (step.times) step.times->node = graph_.nodes()[i]->name();
    if (layout_.needs_backward[i]) graph_.nodes()[i]->backward(step);
    if (step.times) step.times->node.clear();
    for (const size_t param : node_params_[i]) {
      if (!exchange || parameters_.all()[param].frozen) continue;
      if (exchange->reads_gradients()) parameters_.copy_gradient(param);
      exchange->ready(param);
    }
  }
}

void Plan::find_nonfinite() { backend_.find_nonfinite(parameters_.gradient_tensor(), nonfinite_); }

Plan::Outcome Plan::outcome(bool training) {
  std::vector<LossReport> reports(layout_.losses.size());
  int32_t nonfinite = 0;
  backend_.to_host(reports.data(), memory_.losses, reports.size() * sizeof(LossReport));
  backend_.to_host(&nonfinite, nonfinite_, sizeof nonfinite);
  Outcome outcome{{{"loss", 0, samples_}}, nonfinite == 0};
  const auto add = [&](const std::string& name, double sum) {
    const auto known = std::ranges::find(outcome.metrics, name, &Metric::name);
    if (known == outcome.metrics.end())
      outcome.metrics.push_back({name, sum, samples_});
    else
      known->sum += sum;
  };
  for (size_t i = 0; i < reports.size(); ++i) {
    const LossOptions& loss = layout_.losses[i];
    if (loss.training_only && !training) continue;
    const double sum = loss.weight == 1 ? reports[i].loss_sum : double(loss.weight) * reports[i].loss_sum;
    outcome.metrics[0].sum += sum;
    if (!loss.name.empty()) add(loss.name, sum);
    if (!loss.compared.empty()) add(loss.compared, double(reports[i].count));
    for (size_t k = 0; k < loss.hits.size(); ++k) add(loss.hits[k], double(reports[i].hits[k]));
  }
  return outcome;
}

std::vector<Detection> Plan::detections(const Step& step) const {
  std::vector<Detection> found;
  for (const auto& node : graph_.nodes()) node->detect(step, found);
  return found;
}

std::vector<float> Plan::logits(const Step& step) const {
  for (const auto& node : graph_.nodes())
    if (std::vector<float> found = node->logits(step); !found.empty()) return found;
  return {};
}

void Plan::update_statistics(Step& step) {
  std::vector<RunningStep> running;
  for (auto& node : graph_.nodes()) node->update_statistics(step, running);
  backend_.update_running(running);
}

std::string Plan::first_nonfinite(Step& step) {
  for (const Param& param : parameters_.all())
    if (!backend_.all_finite(param.master)) return param.name;
  for (auto& node : graph_.nodes()) {
    node->forward(step);  // again, since backward may have overwritten the result
    const Tensor watched = node->watched(step);
    if (watched && !backend_.all_finite(watched)) return node->name();
  }
  for (const Param& param : parameters_.trained())  // in backward order: the first one is the origin
    if (!backend_.all_finite(param.gradient)) return "gradient of " + param.name;
  return {};
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
  for (const Param& param : parameters_.trained()) {
    const int64_t passes = param.square ? 7 : 5;  // reads of the gradient, and reads and writes of the others
    work.update_bytes += passes * int64_t(param.master.bytes());
    if (param.encoding.quantized()) work.update_bytes += int64_t(param.master.bytes() + param.codes.values.bytes());
  }
  return work;
}

std::string Plan::describe(size_t columns) const {
  const TableColumn head[] = {{"node"}, {"kind"}, {"output (NHWC)"}, {"value"}, {"bytes", true}, {"parameters", true}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& node : graph_.nodes()) {
    const Edge output = node->output();
    std::string shape = "-", value = "-";
    if (output.id >= 0) {
      const QTensor& edge = memory_.values[size_t(output.id)];
      const Shape& s = edge.values.shape;
      shape = fmt::format("{}x{}x{}x{}", s.n, s.h, s.w, s.c);
      value = name_of(edge.values.dtype);
    }
    int64_t parameters = 0;
    for (const size_t index : node_params_[size_t(node->index())])
      parameters += parameters_.all()[index].shape.elements();
    rows.push_back(
        {node->name(), node->kind(), shape, value, say(layout_.node_bytes[size_t(node->index())]), say(parameters)});
  }
  return table_text(head, rows, columns);
}

}  // namespace octet
