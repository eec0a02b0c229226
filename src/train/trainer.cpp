#include "src/train/trainer.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/deploy/advice.h"
#include "src/deploy/fold.h"
#include "src/deploy/integer_policy.h"
#include "src/tasks/metric_display.h"
#include "src/train/needed_pixels.h"
#include "src/train/network_form.h"
#include "src/train/rank.h"
#include "src/train/schedule.h"
#include "src/weights/class_names.h"
#include "src/weights/pixel_normalization.h"

namespace octet {

struct Trainer::OwnWatch {
  OwnWatch(double timeout, Transport& transport) : watch(timeout), joined(watch, transport, timeout) {}
  RankWatch watch;
  RankWatch::Joined joined;
};

Trainer::Trainer(const Config& config, Transport& transport, bool training, Heart* heart, const OpenDatasets& open)
    : config_(config), transport_(transport), task_(task_of(config)), heart_(heart) {
  if (heart_ == nullptr) {
    own_watch_ = std::make_unique<OwnWatch>(config.comm.timeout_seconds, transport);
    heart_ = &own_watch_->watch.heart();
  }
  auto policy = make_policy(config);
  batch_of_plan(config, transport.size());  // before data are opened: an error if ranks do not divide the batch
  shares_ = std::make_unique<JobShares>(transport, int(config.backend.threads));
  if (transport.rank() == 0)
    for (const std::string& warning : shares_->warnings()) spdlog::warn("{}", warning);
  if (config.backend.device == "cpu") stay_at(shares_->places(memory_nodes()));
  // A device is opened before data, too: it may not be there. The memory of a CPU is what the data leave.
  const bool on_device = config.backend.device != "cpu";
  std::unique_ptr<Backend> backend = on_device ? backend_of(*policy) : nullptr;
  heart_->enter(activity::opening_data);
  datasets_ = open ? open() : open_datasets(config, training);
  require_data_for(task_, config, *datasets_.test);
  heart_->enter(activity::comparing);
  require_same_data();
  heart_->enter(activity::building);
  const auto loader = [&](const Dataset& data, bool train) {
    return make_loader(data, train, config.data.batch, transport.rank(), transport.size(), config.data.workers,
                       uint64_t(config.seed),
                       {.balanced = config.data.balanced,
                        .mixup = config.augment.mixup,
                        .cutmix = config.augment.cutmix,
                        .pixels = normalization_of(config.data).pixels()});
  };
  if (training) train_loader_ = loader(*datasets_.train, true);
  test_loader_ = loader(*datasets_.test, false);
  config_.model.classes = datasets_.test->classes();
  if (!backend) backend = backend_of(*policy);
  step_ = make_step(std::move(policy), std::move(backend), training);
  heart_->enter(activity::comparing);
  state().check_agreement(transport);
}

Trainer::~Trainer() = default;

std::unique_ptr<Backend> Trainer::backend_of(const Policy& policy) const {
  const int64_t images =
      config_.backend.device == "cpu" ? bytes_read_ahead(config_, config_.data.batch / transport_.size()) : 0;
  return make_backend(config_, policy, transport_, *shares_, images);
}

std::unique_ptr<TrainingStep> Trainer::make_integer_step(IntegerLayers layers, const IntegerNetwork* other,
                                                         int64_t kept) {
  auto policy = std::make_unique<IntegerPolicy>(std::move(layers));
  auto backend = backend_of(*policy);
  return make_step(std::move(policy), std::move(backend), false, other, kept);
}

std::unique_ptr<TrainingStep> Trainer::make_step(std::unique_ptr<Policy> policy, std::unique_ptr<Backend> backend,
                                                 bool training, const IntegerNetwork* other, int64_t kept) {
  return std::make_unique<TrainingStep>(
      config_, transport_, std::move(policy), std::move(backend),
      [&](const Policy& p, bool trains, int canvas) {
        const ImageShape shape = datasets_.test->canvas_shape(canvas);
        Graph graph = task_.network(config_, p, shape.height, shape.width, trains);
        if (!other) return graph;
        const auto* const loss = graph.nodes().back()->as<SoftmaxLossOptions>();
        return graph_of(*other, p, loss ? *loss : SoftmaxLossOptions{});
      },
      TrainingStep::Options{.plan = {.storage = storage_of(config_),
                                     .own_slots = kept > 0,
                                     .pixels = normalization_of(config_.data).pixels()},
                            .batch = kept > 0 ? kept : batch_of_plan(config_, transport_.size()),
                            .parts = kept > 0 ? 1 : int(config_.train.accumulate),
                            .canvases = datasets_.test->canvases(),
                            .threads = shares_->threads(),
                            .training = training,
                            .heart = heart_});
}

// Each rank derives the number of steps from the data that it sees. Ranks with different data could take different
// numbers of steps and would then wait for each other forever.
void Trainer::require_same_data() {
  uint64_t first = data_fingerprint_ = datasets_.fingerprint();
  transport_.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0);
  REQUIRE_USAGE(data_fingerprint_ == first, "give every rank the same files under its data.root",
                "this rank and rank 0 have different data; here: ",
                datasets_.train ? say(datasets_.train->describe(), "; ") : "", datasets_.test->describe());
}

double Trainer::learning_rate_at(int64_t step) const { return learning_rate(config_.train, step, steps_per_epoch()); }

void Trainer::start(int64_t step) {
  train_loader_->start(step);
  sent_ = false;
  ahead_error_ = nullptr;
}

void Trainer::expect_files() { heart_->enter(transport_.rank() == 0 ? activity::saving : activity::awaiting_files); }

StepReport Trainer::step(int64_t index, bool stop) {
  heart_->enter(activity::reading, index + 1);
  const Batch batch = next_batch();  // a copy, since the next batch may be read before the step ends
  const StepInput input{.batch = batch,
                        .learning_rate = learning_rate_at(index),
                        .progress = double(index) / double(config_.train.epochs * steps_per_epoch()),
                        .sent = std::exchange(sent_, false),
                        .stop = stop};
  StepReport report = step_->run(input, [this] { send_next_batch(); });
  count_skipped(report, index);
  return report;
}

const Batch& Trainer::next_batch() {
  Timed timed(step_->times_phases() ? &step_->times() : nullptr, Phase::data_wait);
  if (ahead_error_) std::rethrow_exception(ahead_error_);
  if (!sent_) batch_ = train_loader_->next();
  return batch_;
}

void Trainer::send_next_batch() {
  if (!step_->plan().sends() || step_->times_phases()) return;
  try {
    batch_ = train_loader_->next();
  } catch (...) {
    // The current step does not need this batch and may be the last one, so the error is thrown only when the next step
    // asks for the batch.
    ahead_error_ = std::current_exception();
    return;
  }
  step_->plan(batch_.canvas).send(batch_.images);
  sent_ = true;
}

void Trainer::count_skipped(const StepReport& report, int64_t index) {
  if (report.skipped) ++skipped_;
  diverged_ = report.skipped && !report.empty ? diverged_ + 1 : 0;
  if (diverged_ == 10) require_convergence();  // skipped steps change no weight, so the next ones would not differ
  // A few small batches without a readable image may occur by chance.
  empty_batches_ = report.empty ? empty_batches_ + 1 : 0;
  REQUIRE_USAGE(empty_batches_ < 10, "check that the data is still at data.root", "step ", index + 1,
                ": no image of the last ", empty_batches_, " batches could be read");
}

void Trainer::require_convergence(const Scalars& test) const {
  if (diverged_ > 0)
    throw NonFiniteError(say("loss or gradient was not finite in the last ", diverged_,
                             diverged_ == 1 ? " step, which was skipped" : " steps, which were skipped"));
  for (const Scalar& figure : test)
    if (figure.name == "loss" && !std::isfinite(figure.value)) throw NonFiniteError("the test loss is not finite");
}

std::unique_ptr<Judge> Trainer::evaluate(const std::function<bool()>& stop, bool keeps_answers) {
  std::unique_ptr<Judge> judge = task_.judge(*datasets_.test, keeps_answers);
  step_->swap_averages();
  const bool complete = answer_all(*judge, stop);
  step_->swap_averages();
  if (!complete) return nullptr;
  judge->finish(transport_, *heart_);
  return judge;
}

// Returns false if a rank was asked to stop.
bool Trainer::answer_all(Judge& judge, const std::function<bool()>& stop) {
  state().check_agreement(transport_);
  test_loader_->start(0);
  const int64_t batches = test_loader_->batches_per_epoch();
  bool sent = false;
  for (int64_t b = 0; b < batches; ++b) {
    if (stop) {
      heart_->enter(activity::summing);
      double stops[] = {stop() ? 1.0 : 0.0};
      transport_.all_reduce_sum(std::span<double>(stops));
      if (stops[0] > 0) return false;
    }
    heart_->enter(activity::evaluation);
    if (b == 0) step_->begin_evaluation();
    const Batch& batch = test_loader_->next();
    const auto send_next = [&] {
      if (b + 1 == batches || !step_->evaluation_plan(0).sends()) return;
      const Batch& next = test_loader_->ahead();
      step_->evaluation_plan(next.canvas).send(next.images);
      sent = true;
    };
    judge.take(batch, step_->evaluate(batch, judge.wants_probabilities(), std::exchange(sent, false), send_next));
  }
  return true;
}

IntegerNetwork Trainer::integer_network() {
  step_->swap_averages();
  step_->begin_evaluation();
  const Normalization pixels = normalization_of(config_.data);
  IntegerLayers layers = fold(step_->plan(), step_->parameters(), step_->backend(), pixels);
  step_->swap_averages();
  return octet::integer_network(make_integer_step(std::move(layers))->plan(), pixels);
}

Trainer::Comparison Trainer::compare_integers(const IntegerNetwork* other, const Seen& seen) {
  Comparison comparison;
  for (std::unique_ptr<Judge>* judge : {&comparison.integers, &comparison.training})
    *judge = task_.judge(*datasets_.test, true);
  state().check_agreement(transport_);
  step_->swap_averages();
  step_->begin_evaluation();
  IntegerLayers layers =
      other ? layers_of(*other)
            : fold(step_->plan(), step_->parameters(), step_->backend(), normalization_of(config_.data));
  comparison.notes = layers.notes;
  const auto integers = make_integer_step(std::move(layers), other);
  const auto class_of = [](const Answers& answers, size_t image, size_t images) {
    const size_t classes = answers.logits.size() / images;
    const auto row = answers.logits.begin() + ptrdiff_t(image * classes);
    return std::max_element(row, row + ptrdiff_t(classes)) - row;
  };
  std::array<int64_t, 2> counts{};
  test_loader_->start(0);
  for (int64_t b = 0; b < test_loader_->batches_per_epoch(); ++b) {
    heart_->enter(activity::evaluation);
    const Batch& batch = test_loader_->next();
    Answers own = integers->evaluate(batch, true), other = step_->evaluate(batch, true);
    if (seen) seen(batch, own);
    const size_t images = own.logits.empty() ? 0 : batch.samples.size();
    for (size_t i = 0; i < images; ++i) {
      if (batch.samples[i] < 0) continue;
      counts[0] += 1;
      counts[1] += class_of(own, i, images) == class_of(other, i, images) ? 1 : 0;
    }
    comparison.integers->take(batch, std::move(own));
    comparison.training->take(batch, std::move(other));
  }
  step_->swap_averages();
  transport_.all_reduce_sum(std::span<int64_t>(counts));
  comparison.images = counts[0], comparison.same = counts[1];
  comparison.integers->finish(transport_, *heart_);
  comparison.training->finish(transport_, *heart_);
  const auto figure = [&](const std::unique_ptr<Judge>& of) {
    return std::ranges::find(of->figures(), task_.main_figure, &Scalar::name)->value;
  };
  const std::string note = advice(config_.policy, display_of(task_.main_figure).label, figure(comparison.integers),
                                  figure(comparison.training));
  if (!note.empty()) comparison.notes.push_back(note);
  return comparison;
}

std::vector<std::vector<std::byte>> Trainer::codes(const IntegerNetwork& network, const Batch& batch, int64_t images) {
  const auto step = make_integer_step(layers_of(network), &network, images);
  Batch first = batch;
  first.samples = batch.samples.first(size_t(images)), first.count = images;
  step->evaluate(first);
  std::vector<std::vector<std::byte>> codes;
  for (size_t tensor = 0; tensor < network.tensors.size(); ++tensor) {
    if (network.tensors[tensor].type == DType::f32) {
      codes.emplace_back();
      continue;
    }
    const Tensor& values = step->plan().memory().values[tensor].values;  // an edge for each tensor, see graph_of()
    codes.emplace_back(values.bytes());
    step->backend().to_host(codes.back().data(), values.data, codes.back().size());
  }
  return codes;
}

Result Trainer::result(const Judge& test, const StepCount& at, const TrainingTime& time) {
  Result result;
  const Scalars& figures = test.figures();
  result.metrics = main_figure_first(task_, figures);
  result.by_class = test.by_class();
  result.epochs = at.epoch();
  result.steps = at.done;
  result.ranks = transport_.size();
  result.images = at.done * config_.data.batch;
  result.images_per_epoch = at.of_epoch * config_.data.batch;
  result.backend = backend().name();
  result.isa = backend().isa();
  result.threads = shares_->threads();
  result.policy = config_.policy.name;
  if (time.steps > 0) {
    result.images_per_second = double(time.steps * config_.data.batch) / time.in_steps;
    result.wire_bytes_per_step = uint64_t(step_->exchange().wire_bytes() / time.steps);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  result.peak_memory_bytes = uint64_t(usage.ru_maxrss) * 1024;
  result.arena_bytes = step_->plan().arena_bytes();
  result.weights_sha256 = state().weights_sha256();
  return result;
}

TrainingState Trainer::state() {
  return TrainingState(*step_, classes_of(datasets_.train ? *datasets_.train : *datasets_.test).category_ids);
}

std::string Trainer::load_initial_weights() {
  const std::string &whole = config_.model.initial_weights, &backbone = config_.model.initial_backbone;
  const bool new_head = config_.model.head == "new";
  REQUIRE_USAGE(whole.empty() || backbone.empty(), "keep one of them",
                "model.initial_weights gives all weights, and model.initial_backbone some of them");
  REQUIRE_USAGE(!new_head || !whole.empty(), "set model.initial_weights, or leave model.head out",
                "model.head is new, but there are no weights whose head it would replace");
  const std::string& path = whole.empty() ? backbone : whole;
  if (path.empty()) return {};
  const SafetensorsFile file = open_weights(path);
  if (!whole.empty() && !new_head) require_same_classes(file, path);
  if (transport_.rank() == 0) {
    warn_of_other_pixels(file, path, config_);
    warn_of_other_form(file, path, config_);
  }
  const LoadedWeights loaded =
      whole.empty() ? state().load_backbone(file, path) : state().load(file, path, {.new_head = new_head});
  state().check_agreement(transport_);
  return say(path, ": ", loaded.text());
}

void Trainer::load_weights(const std::string& path) {
  const SafetensorsFile file = open_weights(path);
  require_same_classes(file, path);
  require_same_form(file, path, config_);
  if (transport_.rank() == 0) warn_of_other_pixels(file, path, config_);
  state().load(file, path, {});
}

// Classes are numbered in the order of their names, so weights would name the classes of a renamed folder wrongly.
void Trainer::require_same_classes(const SafetensorsFile& file, const std::string& path) const {
  const std::vector<std::string> of_weights = read_classes(file, path).names,
                                 of_data = classes_of(*datasets_.test).names;
  if (of_weights.empty() || of_data.empty()) return;
  const char* const fix = "use the classes of the weights, in their order; to train others set model.head: new";
  REQUIRE_USAGE(of_weights.size() == of_data.size(), fix, path, " knows ", of_weights.size(),
                " classes, and the data has ", of_data.size());
  for (size_t i = 0; i < of_data.size(); ++i)
    REQUIRE_USAGE(of_weights[i] == of_data[i], fix, "class ", i, " is `", of_weights[i], "` in ", path, " and `",
                  of_data[i], "` in the data");
}

double Trainer::hidden_share() const {
  const GradientExchange& exchange = step_->exchange();
  const double busy = exchange.busy_seconds();
  return busy > 0 ? std::max(0.0, 1 - exchange.wait_seconds() / busy) : 0;
}

}  // namespace octet
