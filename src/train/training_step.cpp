#include "src/train/training_step.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/math.h"
#include "src/train/gradient_exchange.h"
#include "src/train/schedule.h"

namespace octet {
namespace {

// Sets OpenMP's number of threads, which the loops of simulated policies use. The setting belongs to the calling
// thread.
class LoopThreads {
 public:
  explicit LoopThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~LoopThreads() { omp_set_num_threads(before_); }
  LoopThreads(const LoopThreads&) = delete;
  LoopThreads& operator=(const LoopThreads&) = delete;

 private:
  const int before_;
};

// Of each row of `classes` logits.
std::vector<float> softmax(std::vector<float> values, size_t classes) {
  for (auto row = values.begin(); row != values.end(); row += ptrdiff_t(classes)) {
    const std::span<float> all(row, classes);
    const float greatest = *std::ranges::max_element(all);
    double sum = 0;
    for (const float value : all) sum += exponential(double(value - greatest));
    for (float& value : all) value = float(exponential(double(value - greatest)) / sum);
  }
  return values;
}

}  // namespace

TrainingStep::TrainingStep(const Config& config, Transport& transport, std::unique_ptr<Policy> policy,
                           std::unique_ptr<Backend> backend, const Network& network, const Options& options)
    : config_(config),
      transport_(transport),
      threads_(options.threads),
      parts_(options.parts),
      heart_(options.heart),
      policy_(std::move(policy)),
      backend_(std::move(backend)),
      parameters_(std::make_unique<Parameters>(*policy_, *backend_, parameter_options(config))) {
  const PolicyTraits& traits = policy_->traits();
  // They change a gradient after they have added to it, and may compute a norm's gradient from that of its parameters.
  REQUIRE_USAGE(parts_ == 1 || !options.training || !policy_->simulation(),
                "set train.accumulate: 1, or policy.name to unified_int8, wage or fp32", "policy ", traits.name,
                " computes its gradients from all images of a rank");
  const LoopThreads threads(threads_);
  if (traits.needs_clips) {
    clip_transport_ = transport.duplicate();
    clips_ = std::make_unique<ClipCoordinator>(config.policy, *clip_transport_, *backend_, parameters_->exact_sums());
  }
  REQUIRE_USAGE(!parameters_->exact_sums() || !options.training || traits.holds_ranges,
                "set policy.name: unified_int8 with policy.activation_range: held, or comm.exchange: fp32",
                "comm.exchange: exact needs values that do not depend on the number of ranks; policy ", traits.name,
                " takes ranges or norms from the batch of one rank");
  if (traits.holds_ranges)
    ranges_ = std::make_unique<ActivationRanges>(transport, *backend_, parameters_->exact_sums());
  const auto make_plans = [&](bool training, int64_t batch) {
    PlanOptions plan = options.plan;
    plan.training = training;
    if (training && config.augment.mixup > 0) plan.pixels.reset();  // mixed samples are no bytes
    plan.norm_group = config.train.norm_group;
    std::vector<std::unique_ptr<Plan>> plans;
    for (int canvas = 0; canvas < options.canvases; ++canvas)
      plans.push_back(std::make_unique<Plan>(network(*policy_, training, canvas), *parameters_, *policy_, *backend_,
                                             held(), batch, plan));
    return plans;
  };
  if (options.training) training_ = make_plans(true, options.batch);
  evaluation_ = make_plans(false, options.batch);
  if (options.training && parameters_->exact_sums()) priming_ = make_plans(true, config.train.norm_group);
  std::vector<Plan*> plans;
  for (const auto* of_kind : {&training_, &evaluation_, &priming_})
    for (const std::unique_ptr<Plan>& plan : *of_kind) plans.push_back(plan.get());
  arena_ = bind_plans(*backend_, *parameters_, plans);
  parameters_->initialize(uint64_t(config.seed));
  parameters_->start_averages();
  if (ranges_) ranges_->bind(parameters_->ranges());
  if (options.training) exchange_ = make_gradient_exchange(config, transport, *backend_, *parameters_);
}

TrainingStep::~TrainingStep() = default;

StepReport TrainingStep::run(const StepInput& input, const std::function<void()>& meanwhile) {
  const LoopThreads threads(threads_);
  const Batch& batch = input.batch;
  Plan& plan = *training_[size_t(batch.canvas)];
  enter(activity::forward);
  begin(batch.step);  // clears what the last step counted and added
  if (!settled()) prime(batch);

  Metrics of_parts;
  for (int part = 0; part < parts_ - 1; ++part) {
    Step step = load(plan, batch, part, true, input.sent);
    compute_gradients(plan, step, input, part);
    add(of_parts, plan.outcome(true).metrics);
    keep_moments();
  }
  Step step = load(plan, batch, parts_ - 1, true, input.sent);  // images, index, random keys, clips
  compute_gradients(plan, step, input, parts_ - 1);
  if (meanwhile) meanwhile();  // host work while a GPU computes
  StepReport report = agree(plan, step, input, std::move(of_parts));
  if (report.skipped) {  // its observations are not valid
    if (clips_) clips_->postpone();
    if (ranges_) ranges_->postpone();
    return report;
  }
  // On a due step rank 0 decides clips and learning-rate scales for all.
  report.clips_updated = clips_ && clips_->update();
  enter(activity::update);
  run({Program::Of::update}, step, batch, input.learning_rate, [&] {
    plan.update_statistics(step);  // running statistics, from moments that the ranks averaged
    update(input);                 // f32 masters, momentum, decay
  });
  move_averages(batch.step);
  return report;
}

void TrainingStep::compute_gradients(Plan& plan, Step& step, const StepInput& input, int part) {
  const bool first = part == 0, last = part == parts_ - 1;
  enter(activity::forward);
  run({Program::Of::gradients, first, last, clips_ && clips_->observing(), clips_ && clips_->samples_as_forced()}, step,
      input.batch, input.learning_rate, [&] {
        if (first) {
          exchange_->begin(step.index);
          encode_weights(step);  // f32 masters -> int8 codes + scale
          parameters_->begin_gradients();
        }
        plan.forward(step);  // codes + scale between nodes
        enter(activity::backward);
        plan.backward(step,
                      last ? exchange_.get() : nullptr);  // a finished bucket starts its quantized all-reduce here
        if (!last) return;
        finish_exchange();  // every rank holds the sum of all gradients
        plan.find_nonfinite();
      });
}

void TrainingStep::begin_evaluation() {
  parameters_->choose_clips();
  parameters_->encode(uint64_t(config_.seed), 0);
}

void TrainingStep::calibrate(const Batch& batch) {
  REQUIRE_USAGE(ranges_, "set policy.name: unified_int8 with policy.activation_range: held", "policy ",
                policy_->traits().name, " holds no ranges of activations");
  const LoopThreads threads(threads_);
  Plan& plan = *evaluation_[size_t(batch.canvas)];
  Step step = load(plan, batch, 0, false);
  step.measures = true;
  ranges_->begin();
  plan.forward(step);
  std::vector<double> counts(size_t(2 * ranges_->layers()));
  ranges_->counts(plan.range_elements(), counts);
  transport_.all_reduce_sum(std::span(counts));
  ranges_->update(counts);
}

Answers TrainingStep::evaluate(const Batch& batch, bool wants_probabilities, bool sent,
                               const std::function<void()>& meanwhile) {
  const LoopThreads threads(threads_);
  Plan& plan = *evaluation_[size_t(batch.canvas)];
  Answers answers;
  for (int part = 0; part < parts_; ++part) {
    Step step = load(plan, batch, part, false, sent);
    run({Program::Of::evaluation}, step, batch, 0, [&] { plan.forward(step); });
    if (part == parts_ - 1 && meanwhile) meanwhile();
    Answers of_part{.metrics = plan.outcome(false).metrics, .detections = plan.detections(step)};
    if (wants_probabilities) of_part.logits = plan.logits(step);
    add(answers, of_part);
  }
  if (wants_probabilities)
    answers.probabilities = softmax(answers.logits, answers.logits.size() / size_t(plan.batch() * parts_));
  return answers;
}

void TrainingStep::run(Program program, const Step& step, const Batch& batch, double learning_rate,
                       const std::function<void()>& work) {
  // Calls cannot be recorded in three cases: each phase is timed, an exchange of host gradients waits for peers, or an
  // unknown clip must be decided within the step.
  const bool computes_gradients = program.of == Program::Of::gradients;
  const bool unrecorded =
      timing_ || (computes_gradients && (!settled() || (program.last && exchange_->reads_gradients())));
  backend_->run(
      unrecorded ? Backend::unrecorded : batch.canvas * Program::count + program.id(),
      {step.index, float(learning_rate), uint64_t(step.first_sample), adamw_corrections(config_.train, batch.step)},
      work);
}

void TrainingStep::begin(int64_t index) {
  if (clips_) clips_->begin(index);
  if (ranges_) ranges_->begin();
  parameters_->choose_clips();
  if (parameters_->exact_sums()) parameters_->begin_sums();
  moments_.clear();
}

// With the exact exchange, ranges and clips that are not known are those of the first norm group of the global batch,
// so that they depend neither on the ranks nor on the parts. All ranks compute a group, and that of rank 0 counts.
void TrainingStep::prime(const Batch& batch) {
  if (priming_.empty()) return;  // run() measures them over the first part of all ranks
  Plan& plan = *priming_[size_t(batch.canvas)];
  Step step = load(plan, batch, 0, true);
  encode_weights(step);
  parameters_->begin_gradients();
  plan.forward(step);
  plan.backward(step, nullptr);
  if (clips_) clips_->restart();
  if (ranges_) ranges_->restart();
  if (parameters_->exact_sums()) parameters_->begin_sums();
}

// Objects of a part's images are counted from the part's first.
Targets TrainingStep::targets_of(const Targets& all, int64_t first, int64_t count) {
  Targets targets = all;
  if (targets.labels) targets.labels += first;
  if (targets.other_labels) targets.other_labels += first;
  if (targets.shares) targets.shares += first;
  if (!targets.truth) return targets;
  const auto from = targets.truth->images.begin() + ptrdiff_t(first);
  truth_ = {};
  truth_.images.assign(from, from + ptrdiff_t(count));
  for (Truth::Image& image : truth_.images) {
    const auto object = targets.truth->objects.begin() + ptrdiff_t(image.first);
    image.first = uint32_t(truth_.objects.size());
    truth_.objects.insert(truth_.objects.end(), object, object + ptrdiff_t(image.count));
  }
  targets.truth = &truth_;
  return targets;
}

Step TrainingStep::load(Plan& plan, const Batch& batch, int part, bool training, bool sent) {
  const int64_t first = part * plan.batch();
  Step step{.backend = *backend_, .memory = plan.memory(), .held = held()};
  step.times = timing_ ? &times_ : nullptr;
  step.index = uint32_t(batch.step);
  step.training = step.measures = training;
  step.seed = uint64_t(config_.seed);
  step.first_sample = batch.first + first;
  step.gradient_scale = policy_->traits().loss_scale / float(config_.data.batch);
  const auto* const images = static_cast<const std::byte*>(batch.images) + size_t(part) * plan.image_bytes();
  plan.load(step, images, targets_of(batch.targets, first, plan.batch()), sent && part == 0);
  return step;
}

void TrainingStep::encode_weights(const Step& step) {
  Timed timed(step.times, Phase::quantize);
  parameters_->encode(step.seed, step.index);
}

void TrainingStep::finish_exchange() {
  enter(activity::exchange);
  Timed timed(timing_ ? &times_ : nullptr, Phase::exchange);
  exchange_->finish();
  if (exchange_->reads_gradients()) parameters_->store_gradients();
  if (parameters_->exact_sums()) parameters_->read_sums();
}

// Sums figures, saturation counts and the flags "stop" and "not finite" over the ranks in one small message, so that
// all ranks act alike. Averages the batch moments, so that running statistics are the same on every rank.
StepReport TrainingStep::agree(Plan& plan, const Step& step, const StepInput& input, Metrics metrics) {
  enter(activity::exchange);
  Timed timed(step.times, Phase::exchange);
  exchange_->wait();
  const auto [of_last_part, finite_gradients] = plan.outcome(true);
  add(metrics, of_last_part);
  const bool fit = !parameters_->exact_sums() || parameters_->sums_fit();
  const bool finite_loss = std::isfinite(metrics.front().sum), finite = finite_loss && finite_gradients && fit;
  for (Metric& metric : metrics)
    if (!std::isfinite(metric.sum)) metric.sum = 0;
  std::vector<double> message = as_numbers(metrics);
  const size_t of_metrics = message.size(), of_clips = clips_ ? size_t(2 * clips_->layers()) : 0;
  message.resize(of_metrics + of_clips + (ranges_ ? size_t(2 * ranges_->layers()) : 0));
  message.insert(message.end(), {finite ? 0.0 : 1.0, input.stop ? 1.0 : 0.0});
  const std::span<double> all(message), sums = all.first(of_metrics), flags = all.last(2);
  const std::span<double> saturated_gradients = all.subspan(of_metrics, of_clips);
  const std::span<double> saturated_activations =
      all.subspan(of_metrics + of_clips, all.size() - of_metrics - of_clips - flags.size());
  if (clips_) clips_->counts(saturated_gradients);
  if (ranges_) ranges_->counts(plan.range_elements(), saturated_activations, parts_);
  transport_.all_reduce_sum(all);
  average_moments();
  if (clips_) clips_->judge(saturated_gradients);

  StepReport report;
  report.figures = means_of(with_numbers(std::move(metrics), sums));
  const bool nonfinite = flags[0] > 0;
  report.stop = flags[1] > 0;
  report.empty = sums[1] == 0;  // the loss counts no sample
  report.skipped = nonfinite || report.empty;
  if (report.skipped) report.figures.front().value = std::numeric_limits<double>::quiet_NaN();
  if (ranges_ && !report.skipped) {
    ranges_->update(saturated_activations);
    report.saturated_activations = ranges_->saturated_share();
  }
  if (nonfinite && config_.train.on_nonfinite == "stop")
    refuse_nonfinite(plan, step, input.batch.step,
                     !finite_loss ? "the loss"
                     : !fit       ? "a sum of gradients that is too large for comm.exchange: exact"
                     : finite     ? ""
                                  : "the gradients");
  return report;
}

void TrainingStep::keep_moments() {
  const Tensor all = parameters_->all_moments();
  const size_t before = moments_.size();
  moments_.resize(before + size_t(all.elements()));
  backend_->to_host(moments_.data() + before, all.data, all.bytes());
}

void TrainingStep::average_moments() {
  const Tensor all = parameters_->all_moments();
  const int64_t groups = all.shape.w * parts_ * transport_.size(), count = all.shape.c;
  if (groups == 1) return;
  keep_moments();
  std::vector<float> gathered(size_t(groups * count));
  transport_.all_gather(std::as_bytes(std::span(moments_)), std::as_writable_bytes(std::span(gathered)));
  std::vector<float> mean(gathered.begin(), gathered.begin() + count);  // added in the order of the global batch
  for (size_t i = mean.size(); i < gathered.size(); ++i) mean[i % mean.size()] += gathered[i];
  for (float& value : mean) value /= float(groups);
  backend_->to_device(all.data, mean.data(), mean.size() * sizeof(float));
}

// own: what this rank knows to be at fault if no tensor is.
void TrainingStep::refuse_nonfinite(Plan& plan, const Step& step, int64_t index, const std::string& own) {
  Step inspected = step;
  std::string where = plan.first_nonfinite(inspected);
  if (!where.empty()) where = "'" + where + "'";
  if (where.empty()) where = own.empty() ? "another rank" : own;
  throw NonFiniteError(say("step ", index + 1, ": loss or gradient is not finite; first at ", where));
}

void TrainingStep::update(const StepInput& input) {
  Timed timed(timing_ ? &times_ : nullptr, Phase::update);
  config_.train.optimizer == "adamw" ? update_by_adamw(input) : update_by_sgd(input);
  if (timing_) backend_->synchronize();
}

float TrainingStep::decay_of(const Param& param) const {
  return is_weight(param.kind) || config_.train.decay_norm ? float(config_.train.decay) : 0;
}

float TrainingStep::rate_factor_of(const Param& param) const {
  const Config::Train& train = config_.train;
  return param.of_classes && train.head_lr > 0 ? float(train.head_lr / train.lr) : 1;
}

void TrainingStep::update_by_sgd(const StepInput& input) {
  UpdateContext context;
  context.progress = input.progress;
  context.sgd.learning_rate = float(input.learning_rate);
  context.sgd.momentum = float(config_.train.momentum);
  context.sgd.nesterov = config_.train.nesterov;
  uint32_t stream = streams::updates.first;
  std::vector<SgdStep> steps;
  for (Param& param : parameters_->trained()) {
    context.weight = is_weight(param.kind);
    context.full_precision = param.full_precision;
    context.sgd.decay = decay_of(param);
    context.sgd.rate_factor = rate_factor_of(param);
    context.lr_scale = param.lr_scale;
    context.key = {uint64_t(config_.seed), uint32_t(input.batch.step), stream++, 0};
    if (const auto step = policy_->update(context, param.master, param.gradient, param.velocity))
      steps.push_back(*step);
  }
  backend_->sgd_update(steps);
}

void TrainingStep::update_by_adamw(const StepInput& input) {
  std::vector<AdamWStep> steps;
  for (const Param& param : parameters_->trained())
    steps.push_back({{.learning_rate = float(input.learning_rate),
                      .beta1 = float(config_.train.momentum),
                      .beta2 = float(config_.train.beta2),
                      .epsilon = float(config_.train.epsilon),
                      .decay = decay_of(param),
                      .rate_factor = rate_factor_of(param),
                      .corrections = adamw_corrections(config_.train, input.batch.step)},
                     param.master,
                     param.gradient,
                     param.velocity,
                     param.square,
                     param.lr_scale});
  backend_->adamw_update(steps);
}

// The averages follow faster at first, since they begin with initial values: as TensorFlow's ExponentialMovingAverage.
void TrainingStep::move_averages(int64_t index) {
  parameters_->move_averages(std::max(1 - config_.train.ema, 9.0 / double(10 + index)));
}

void TrainingStep::swap_averages() {
  if (!parameters_->averages()) return;
  parameters_->swap_averages();
  if (ranges_) ranges_->read();
}

}  // namespace octet
