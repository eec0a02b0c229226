#include "src/train/trainer.h"

#include <algorithm>

#include "src/train/class_names.h"
#include "src/train/rank.h"
#include "src/train/schedule.h"

namespace octet {
namespace {

// Returns the items of all ranks on every rank, in the order of the images.
template <class Item>
std::vector<Item> gather(Transport& transport, std::vector<Item> own) {
  const auto size = size_t(transport.size());
  std::vector<uint64_t> counts(size);
  const uint64_t count = own.size();
  transport.all_gather(std::as_bytes(std::span(&count, 1)), std::as_writable_bytes(std::span(counts)));
  const uint64_t most = *std::ranges::max_element(counts);
  own.resize(most);
  std::vector<Item> padded(size * most), all;
  transport.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(padded)));
  for (size_t rank = 0; rank < size; ++rank) {
    const auto first = padded.begin() + ptrdiff_t(rank * most);
    all.insert(all.end(), first, first + ptrdiff_t(counts[rank]));
  }
  std::ranges::stable_sort(all, {}, &Item::image);
  return all;
}

}  // namespace

struct Trainer::OwnWatch {
  OwnWatch(double timeout, Transport& transport) : watch(timeout), joined(watch, transport, timeout) {}
  RankWatch watch;
  RankWatch::Joined joined;
};

Trainer::Trainer(const Config& config, Transport& transport, bool training, Heart* heart)
    : config_(config), transport_(transport), task_(task_of(config)), heart_(heart) {
  if (heart_ == nullptr) {
    own_watch_ = std::make_unique<OwnWatch>(config.comm.timeout_seconds, transport);
    heart_ = &own_watch_->watch.heart();
  }
  auto policy = make_policy(config);
  const int64_t batch = batch_of_plan(config, transport.size());
  auto backend = make_backend(config, *policy, transport);
  heart_->enter(activity::opening_data);
  datasets_ = open_datasets(config, training);
  const bool objects = datasets_.test->annotations() != nullptr;
  REQUIRE_USAGE(objects == (task_.figures != nullptr), "choose data and a network for one task", config.model.name,
                " is a network for ", task_.name, ", but the images of '", config.data.name, "' have ",
                objects ? "objects" : "one class each");
  heart_->enter(activity::comparing);
  require_same_data();
  heart_->enter(activity::building);
  const auto loader = [&](const Dataset& data, bool train) {
    return make_loader(data, train, config.data.batch, transport.rank(), transport.size(), config.data.workers,
                       uint64_t(config.seed), {.balanced = config.data.balanced, .mixup = config.augment.mixup});
  };
  if (training) train_loader_ = loader(*datasets_.train, true);
  test_loader_ = loader(*datasets_.test, false);
  config_.model.classes = datasets_.test->classes();
  step_ = std::make_unique<TrainingStep>(
      config_, transport, std::move(policy), std::move(backend),
      [&](const Policy& p, bool trains, int canvas) {
        const ImageShape shape = datasets_.test->canvas_shape(canvas);
        return task_.network(config_, p, shape.height, shape.width, trains);
      },
      TrainingStep::Options{.plan = {.storage = storage_of(config)},
                            .batch = batch,
                            .parts = int(config.train.accumulate),
                            .canvases = datasets_.test->canvases(),
                            .training = training,
                            .heart = heart_});
  heart_->enter(activity::comparing);
  state().check_agreement(transport);
}

Trainer::~Trainer() = default;

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
  const Batch& batch = next_batch();
  const StepInput input{.index = index,
                        .canvas = batch.canvas,
                        .images = batch.images,
                        .targets = batch.targets,
                        .first = batch.first,
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
  // A few small batches without a readable image may occur by chance.
  empty_batches_ = report.empty ? empty_batches_ + 1 : 0;
  REQUIRE(empty_batches_ < 10, "check that the data is still at data.root", "step ", index + 1,
          ": no image of the last ", empty_batches_, " batches could be read");
}

std::optional<Evaluation> Trainer::evaluate(const std::function<bool()>& stop, bool wants_answers) {
  step_->swap_averages();
  std::optional<Evaluation> evaluation = evaluate_weights(stop, wants_answers);
  step_->swap_averages();
  return evaluation;
}

std::optional<Evaluation> Trainer::evaluate_weights(const std::function<bool()>& stop, bool wants_answers) {
  state().check_agreement(transport_);
  test_loader_->start(0);
  Metrics total;
  std::vector<Detection> detections;
  std::vector<Answer> given;
  for (int64_t b = 0; b < test_loader_->batches_per_epoch(); ++b) {
    if (stop) {
      heart_->enter(activity::summing);
      double stops[] = {stop() ? 1.0 : 0.0};
      transport_.all_reduce_sum(std::span<double>(stops));
      if (stops[0] > 0) return std::nullopt;
    }
    heart_->enter(activity::evaluation);
    if (b == 0) step_->begin_evaluation();
    const Batch& batch = test_loader_->next();
    const TrainingStep::Answers answers = step_->evaluate(
        {.index = b, .canvas = batch.canvas, .images = batch.images, .targets = batch.targets, .first = batch.first},
        wants_answers);
    if (wants_answers) {
      const std::vector<Answer> of_batch = answers_of(std::span(batch.targets.labels, size_t(batch.count)),
                                                      answers.probabilities, b * config_.data.batch + batch.first);
      given.insert(given.end(), of_batch.begin(), of_batch.end());
    }
    const Metrics& sums = answers.metrics;
    detections.insert(detections.end(), answers.detections.begin(), answers.detections.end());
    if (total.empty()) total = Metrics(sums.size());
    for (size_t i = 0; i < sums.size(); ++i)
      total[i] = {sums[i].name, total[i].sum + sums[i].sum, total[i].count + sums[i].count};
  }
  heart_->enter(activity::summing);
  std::vector<double> sums;
  for (const Metric& metric : total) sums.insert(sums.end(), {metric.sum, metric.count});
  transport_.all_reduce_sum(std::span(sums));
  REQUIRE(!sums.empty() && sums[1] > 0, "check that the data is still at data.root",
          "no image of the test set could be read");
  Evaluation evaluation;
  if (task_.figures) {
    evaluation.detections = gather(transport_, std::move(detections));
    heart_->enter(activity::judging);
    DetectionFigures judged = task_.figures(*datasets_.test->annotations(), evaluation.detections);
    evaluation.figures = std::move(judged.figures);
    evaluation.classes = std::move(judged.classes);
    return evaluation;
  }
  if (wants_answers) evaluation.answers = gather(transport_, std::move(given));
  for (size_t i = 0; i < total.size(); ++i)
    evaluation.figures.push_back({total[i].name, sums[2 * i] / sums[2 * i + 1]});
  return evaluation;
}

TrainingState Trainer::state() {
  const Annotations* const annotations = datasets_.test->annotations();
  return TrainingState(*step_, annotations ? annotations->category_ids : std::vector<int64_t>());
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
  const LoadedWeights loaded =
      whole.empty() ? state().load_backbone(file, path) : state().load(file, path, {.new_head = new_head});
  state().check_agreement(transport_);
  return say(path, ": ", loaded.text());
}

void Trainer::load_weights(const std::string& path) {
  const SafetensorsFile file = open_weights(path);
  require_same_classes(file, path);
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
