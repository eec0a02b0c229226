// `octet train`: epochs of steps, evaluation, metrics, checkpoints, and the stop on a signal.
#include "src/train/train.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "kernels/base/durable_file.h"
#include "kernels/base/stop_signals.h"
#include "src/data/detections.h"
#include "src/tasks/detection/results.h"
#include "src/tasks/metric_display.h"
#include "src/train/answers.h"
#include "src/train/best_weights.h"
#include "src/train/checkpoint_store.h"
#include "src/train/class_names.h"
#include "src/train/clip_records.h"
#include "src/train/deletion_watch.h"
#include "src/train/digest.h"
#include "src/train/epoch_sums.h"
#include "src/train/explain_high_loss.h"
#include "src/train/final_weights.h"
#include "src/train/metrics.h"
#include "src/train/patient_write.h"
#include "src/train/progress.h"
#include "src/train/prometheus.h"
#include "src/train/rank.h"
#include "src/train/rank_history.h"
#include "src/train/requirements.h"
#include "src/train/result.h"
#include "src/train/resume_point.h"
#include "src/train/run_directory.h"
#include "src/train/straggler.h"
#include "src/train/trainer.h"
#include "src/version.h"

namespace octet {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class TrainingRun {
 public:
  TrainingRun(const Config& config, Transport& transport, const TrainOptions& options, RankWatch& watch)
      : config_(config), transport_(transport), watch_(watch), trainer_(config, transport, true, &watch.heart()) {
    steps_per_epoch_ = trainer_.steps_per_epoch();
    total_steps_ = config.train.epochs * steps_per_epoch_;
    if (config.train.steps > 0) total_steps_ = std::min(total_steps_, config.train.steps);
    if (!options.resume) load_initial_weights();
    trainer_.expect_files();
    if (leads()) open(options);
    trainer_.heart().enter(activity::comparing);
    int64_t state[] = {done_, finished_ ? 1 : 0, owes_test_ ? 1 : 0, total_steps_};
    transport.broadcast(std::as_writable_bytes(std::span(state)), 0);
    done_ = state[0], finished_ = state[1] != 0, owes_test_ = state[2] != 0, total_steps_ = state[3];
    if (done_ > 0)
      trainer_.state().broadcast(transport);
    else if (options.resume)
      load_initial_weights();
    if (!finished_) share_heartbeats();
  }

  int run() {
    if (finished_) return 0;
    const double start = seconds_now();
    trainer_.start(done_);
    const int64_t first = done_;
    if (owes_test_ && !test()) return checkpointed(true);  // the checkpoint from which it resumed
    while (done_ < total_steps_) {
      const StepReport report = train_step();
      const bool stops = report.stop && done_ < total_steps_;
      const int64_t every = config_.checkpoint.every_steps > 0 ? config_.checkpoint.every_steps : steps_per_epoch_;
      // Before the checkpoint, since a run that is resumed there does not repeat the epoch.
      if (ends_epoch() && leads()) metrics().write_epoch(done_, epoch_.record(epoch()));
      const bool due = stops || done_ == total_steps_ || done_ % every == 0 || due_by_time();
      const bool saved = due && save();  // before the evaluation, which a scheduler that stops the run may not wait for
      if (stops) return checkpointed(saved);
      if (ends_epoch() && !finish_epoch()) return checkpointed(saved || save());
      if (done_ == total_steps_ && !due) save();  // the training ends early
    }
    finish(first, seconds_now() - start);
    return 0;
  }

 private:
  bool leads() const { return transport_.rank() == 0; }
  void load_initial_weights() {
    if (const std::string loaded = trainer_.load_initial_weights(); leads() && !loaded.empty())
      spdlog::info("{}", loaded);
  }
  // Collective.
  void share_heartbeats() {
    const JobNote job{fmt::format("{:016x}", std::random_device()() * uint64_t{0x100000001} ^ uint64_t(getpid())),
                      transport_.size(),
                      done_,
                      total_steps_,
                      config_.data.batch,
                      seconds_since_1970()};
    const std::string path = leads() ? std::filesystem::absolute(directory_->path()).string() + "/heartbeats" : "";
    const std::string blind = watch_.share(path, job, transport_);
    if (leads() && !blind.empty())
      spdlog::warn("rank(s) {} cannot read {}: `octet status` and the watchdogs see no heartbeat of theirs", blind,
                   path);
  }
  // Rank 0, before it writes to the run directory.
  void restore_files() { deletions_.look(*directory_, metrics_, best_, done_); }
  MetricsWriter& metrics() { return restore_files(), *metrics_; }
  std::string data_fingerprint() const { return fmt::format("{:016x}", trainer_.data_fingerprint()); }

  void open(const TrainOptions& options) {
    directory_.emplace(config_, options.run_directory, options.resume);
    const std::string& path = directory_->path();
    store_ = std::make_unique<CheckpointStore>(path, config_.checkpoint.keep);
    const std::optional<Result> finished = read_result(path);
    if (options.resume) {
      const CheckpointStore::Found found =
          resume_point(*store_, path, config_, {data_fingerprint(), trainer_.datasets().train->describe()});
      if (found.file) {
        resume_from(found);
      } else {
        REQUIRE_USAGE(!finished, "choose another directory, or move result.json and weights.safetensors away", path,
                      " holds a result but no checkpoints");
        spdlog::info("nothing to resume in {}: starting at step 0", path);
      }
    }
    if (config_.checkpoint.best && done_ > 0) best_.emplace(path, true);
    if (finished && finished->steps == done_ && out_of_patience()) total_steps_ = done_;
    if (finished_ = done_ == total_steps_ && finished && finished->steps == done_; finished_) {
      spdlog::info("{} is finished: its result is in {}/result.json", path, path);
      return;
    }
    if (rank_history_.empty()) rank_history_ = fmt::format("{} from step {}", transport_.size(), done_);
    trainer_.expect_files();
    directory_->begin(config_);
    if (config_.checkpoint.best && !best_) best_.emplace(path, false);
    trainer_.expect_files();
    metrics_ = std::make_unique<MetricsWriter>(path, done_ > 0 ? done_ : -1);
    // The evaluation after the last step is repeated even if it is recorded, since the result needs its figures.
    const bool recorded = metrics_->holds(done_, "test");
    owes_test_ = done_ > 0 && tests() && (done_ == total_steps_ || !recorded);
    test_is_recorded_ = owes_test_ && recorded;
    progress_ = std::make_unique<Progress>(config_.train.log_every_steps);
    spdlog::info("{} on {}", config_.model.name, trainer_.datasets().train->describe());
    const std::string note = trainer_.backend().note();
    spdlog::info("policy {}, storage {}, {} rank(s), {} {}{}, arena {:.1f} MB, {} parameters, run directory {}",
                 config_.policy.name, name_of(storage_of(config_)), transport_.size(), trainer_.backend().name(),
                 trainer_.backend().isa(), note.empty() ? "" : " (" + note + ")",
                 double(trainer_.training_step().plan().arena_bytes()) / 1e6,
                 trainer_.training_step().parameters().count(), path);
  }

  void resume_from(const CheckpointStore::Found& found) {
    REQUIRE_USAGE(found.step <= total_steps_, "raise train.steps, or start a new run", found.path,
                  " has more steps than the configured ", total_steps_);
    const auto& metadata = found.file->metadata();
    if (metadata.contains("commit")) commits_ = metadata.at("commit");
    if (!commits_.ends_with(commit)) commits_ += std::string(", then ") + commit;
    rank_history_ = metadata.contains("ranks") ? metadata.at("ranks") : "";
    if (metadata.contains("epoch_sums")) epoch_ = EpochSums::from_text(metadata.at("epoch_sums"));
    continue_on_ranks(rank_history_, transport_.size(), found.step, config_.comm.exchange == "exact");
    trainer_.state().load(*found.file, found.path, {.optimizer = true});
    done_ = found.step;
    spdlog::info("resumed {} at step {} of {}, on {} rank(s)", found.path, done_, total_steps_, transport_.size());
  }

  // Collective. Whether the last checkpoint, or the start, is checkpoint.every_minutes old by rank 0's clock.
  bool due_by_time() {
    if (config_.checkpoint.every_minutes <= 0) return false;
    int64_t due = leads() && seconds_now() - saved_ >= 60 * config_.checkpoint.every_minutes ? 1 : 0;
    trainer_.heart().enter(activity::exchange);
    transport_.broadcast(std::as_writable_bytes(std::span(&due, 1)), 0);
    return due != 0;
  }

  bool ends_epoch() const { return done_ % steps_per_epoch_ == 0 || done_ == total_steps_; }
  // The number of epochs that so many steps take; the last one may be incomplete.
  int64_t epochs_of(int64_t steps) const { return (steps + steps_per_epoch_ - 1) / steps_per_epoch_; }
  int64_t epoch() const { return epochs_of(done_); }
  bool tests() const {
    return done_ == total_steps_ || (ends_epoch() && epoch() % config_.train.eval_every_epochs == 0);
  }

  StepReport train_step() {
    const double before = seconds_now(), waited = trainer_.wait_seconds();
    StepReport report = trainer_.step(done_, stop_requested());
    ++done_;
    const double now = seconds_now();
    train_seconds_ += now - before;
    epoch_.add(report, now - before);
    if (leads()) record(report, now - before, (trainer_.wait_seconds() - waited) / std::max(now - before, 1e-9), now);
    return report;
  }

  void record(const StepReport& report, double seconds, double data_share, double now) {
    if (report.skipped)
      spdlog::warn("step {}: {}; the step was skipped", done_,
                   report.empty ? "no image of the batch could be read" : "loss or gradient is not finite");
    const int64_t epoch = (done_ - 1) / steps_per_epoch_;
    progress_->step({.epoch = epoch + 1,
                     .epochs = epochs_of(total_steps_),
                     .step = done_ - epoch * steps_per_epoch_,
                     .steps = steps_per_epoch_,
                     .steps_left = total_steps_ - done_,
                     .images = config_.data.batch,
                     .figures = show_each(report.figures, 1, false),
                     .data_share = data_share},
                    now);
    if (done_ % config_.train.log_every_steps == 0 || done_ == 1 || done_ == total_steps_) {
      Scalars scalars = headlines(report.figures);
      scalars.insert(scalars.end(), {{"learning_rate", trainer_.learning_rate_at(done_ - 1)},
                                     {"images_per_second", double(config_.data.batch) / seconds},
                                     {"data_wait_share", data_share},
                                     {"exchange_hidden_share", trainer_.hidden_share()}});
      if (trainer_.training_step().ranges()) scalars.push_back({"saturated_activations", report.saturated_activations});
      metrics().write(done_, "train", scalars);
      export_figures(scalars, double(config_.data.batch) / seconds);
    }
    if (report.clips_updated)
      record_clips(*trainer_.training_step().clips(), done_, config_.policy.clip.record_histograms, metrics());
    if (transport_.size() > 1 && now - looked_ > 1) {
      looked_ = now;
      if (const auto slow = stragglers_.look(now, seen_ranks())) spdlog::warn("{}", *slow);
    }
  }

  // This rank and the others that it sees.
  std::vector<Heartbeat> seen_ranks() const {
    std::vector<Heartbeat> ranks = {watch_.heart().own().last};
    for (const Sighting& other : watch_.heart().others()) ranks.push_back(other.last);
    return ranks;
  }

  void export_figures(const Scalars& scalars, double images_per_second) {
    const std::string& file = config_.train.prometheus;
    if (file.empty() || cannot_export_) return;
    cannot_export_ = !write_prometheus(
        file, {directory_->path(), done_, total_steps_, images_per_second, saved_at_, scalars, seen_ranks()});
    if (cannot_export_) spdlog::warn("{}: cannot be written, and is left as it is", file);
  }

  // The figures of a training step that are recorded.
  static Scalars headlines(const Scalars& figures) {
    Scalars chosen;
    for (const Scalar& figure : figures)
      if (display_of(figure.name).main) chosen.push_back(figure);
    return chosen;
  }

  // Whether the last evaluations were no better than an earlier one, as many as train.patience says. Rank 0's.
  bool out_of_patience() const {
    const int64_t patience = config_.train.patience * config_.train.eval_every_epochs;
    return patience > 0 && best_ && best_->evaluation() && epoch() - best_->evaluation()->epoch >= patience;
  }
  // Collective. Ends the training after the present epoch if rank 0 is out of patience.
  void end_early() {
    int64_t ends = leads() && done_ < total_steps_ && out_of_patience() ? 1 : 0;
    transport_.broadcast(std::as_writable_bytes(std::span(&ends, 1)), 0);
    if (ends == 0) return;
    total_steps_ = done_;
    if (leads())
      spdlog::info("no better evaluation since epoch {}: the training ends, as train.patience: {} says",
                   best_->evaluation()->epoch, config_.train.patience);
  }

  // Returns false if a signal interrupted the evaluation. A resumed run then begins with it.
  bool test() {
    const Dataset& data = *trainer_.datasets().test;
    const bool may_be_last = done_ == total_steps_ || config_.train.patience > 0;
    const bool keeps_answers = may_be_last && !trainer_.task().figures && data.size() <= most_answers;
    std::optional<Evaluation> evaluation = trainer_.evaluate([] { return stop_requested(); }, keeps_answers);
    if (!evaluation) return false;
    test_ = std::move(evaluation->figures);
    classes_ = std::move(evaluation->classes);
    trainer_.expect_files();
    if (leads()) restore_files();
    keep_if_best();
    if (leads()) explain_high_loss(trainer_.training_step().parameters(), done_, epoch_.record(epoch()).means, test_);
    if (leads() && trainer_.task().figures) write_detections(evaluation->detections);
    if (leads() && keeps_answers) write_answers(std::move(evaluation->answers));
    transport_.barrier();  // the others' next step does not begin while rank 0 writes
    if (leads() && !std::exchange(test_is_recorded_, false)) metrics().write(done_, "test", test_);
    return true;
  }

  // Runs before the evaluation is recorded, since a run that is resumed in between repeats the evaluation.
  void keep_if_best() {
    const Scalars figures = judge_first(trainer_.task(), test_);
    if (!best_ || !best_->exceeded_by(figures)) return;
    std::vector<std::vector<float>> storage;
    std::string reason;
    const std::vector<NamedTensor> weights = trainer_.state().save(storage, true);
    if (!best_->replace({epoch(), done_, figures}, weights, metadata(), reason))
      spdlog::warn("the best weights so far, of step {}, are not kept: {}", done_, reason);
  }

  bool is_best() const { return best_ && best_->evaluation() && best_->evaluation()->step == done_; }

  void write_detections(const std::vector<Detection>& detections) {
    const std::string path = directory_->path() + "/detections.json";
    try {
      octet::write_detections(path, *trainer_.datasets().test->annotations(), detections);
    } catch (const FileError& error) {
      spdlog::warn("the detections of step {} are not kept: {}", done_, error.what());
    }
  }

  void write_answers(std::vector<Answer> answers) {
    const Dataset& data = *trainer_.datasets().test;
    try {
      octet::write_answers(directory_->path(), {done_, data.size(), data.class_names(), std::move(answers)});
    } catch (const FileError& error) {
      spdlog::warn("the answers of step {} are not kept: {}", done_, error.what());
    }
  }

  // What all files of weights say about the run.
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> all = {
        {"config", to_yaml(config_)}, {"commit", commits_}, {"data", data_fingerprint()}};
    add_classes(classes_of(*trainer_.datasets().test), all);
    return all;
  }

  bool finish_epoch() {
    if (tests() && !test()) return false;
    const EpochRecord record = std::exchange(epoch_, {}).record(epoch());
    if (leads()) {
      progress_->epoch({.epoch = epoch(),
                        .epochs = epochs_of(total_steps_),
                        .train = record.means.empty() ? "every step was skipped" : show(record.means, 1, false, " "),
                        .test = tests() ? show(test_, 1, false, " ") : "",
                        .best = tests() && is_best(),
                        .images_per_second = double(record.steps * config_.data.batch) / record.seconds,
                        .seconds = record.seconds});
    }
    if (config_.train.patience > 0) end_early();
    return true;
  }

  // Collective. Returns false if the checkpoint cannot be written; the last good one is kept.
  bool save() {
    trainer_.heart().enter(activity::comparing);
    trainer_.state().check_agreement(transport_);
    trainer_.expect_files();
    int64_t saved = 1;
    if (leads()) {
      restore_files();
      std::vector<std::vector<float>> storage;
      const std::vector<NamedTensor> tensors = trainer_.state().save(storage, false);
      std::string reason;
      std::map<std::string, std::string> described = metadata();
      described["ranks"] = rank_history_;
      if (done_ % steps_per_epoch_ != 0) described["epoch_sums"] = epoch_.text();
      const double before = seconds_now();
      saved = store_->save(done_, tensors, std::move(described), reason);
      if (saved != 0) {
        saved_ = seconds_now();
        saved_at_ = seconds_since_1970();
        spdlog::info("checkpoint at step {}, in {:.1f} s", done_, saved_ - before);
      } else {
        const auto last = CheckpointStore::newest_of(directory_->path());
        spdlog::warn("no checkpoint at step {}: {}; {}", done_, reason,
                     last ? fmt::format("the last good checkpoint, of step {}, is kept", last->step)
                          : "there is no checkpoint at all, so a run that ends now would start over");
      }
    }
    transport_.broadcast(std::as_writable_bytes(std::span(&saved, 1)), 0);
    return saved != 0;
  }

  int checkpointed(bool saved) {
    if (!saved)
      throw FileError(__FILE__, __LINE__,
                      say("stopped by a signal at step ", done_, "; the checkpoint could not be written"),
                      "free space on the disk; --resume continues from the last good checkpoint, if there is one");
    if (leads())
      spdlog::info("stopped by a signal at step {}; continue with --run {} --resume", done_, directory_->path());
    return exit_checkpointed;
  }

  void finish(int64_t first, double wall) {
    trainer_.heart().enter(activity::comparing);
    trainer_.state().check_agreement(transport_);
    trainer_.expect_files();
    const Datasets& data = trainer_.datasets();
    if (const int64_t skipped = data.train->skipped() + data.test->skipped(); skipped > 0)
      spdlog::warn("{} images could not be read and were left out", skipped);
    if (!leads()) return;
    restore_files();
    std::vector<std::vector<float>> storage;
    const std::vector<NamedTensor> weights = trainer_.state().save(storage, true);
    std::map<std::string, std::string> described = metadata();
    add_digest(weights, described);
    const Result result = result_of(done_ - first, wall);
    const double limit = config_.comm.timeout_seconds, patience = limit > 0 ? limit : 180;
    try {
      write_patiently(
          [&] {
            write_safetensors(directory_->path() + "/weights.safetensors", weights, described);
            write_result(directory_->path(), result);
          },
          patience, stop_requested, trainer_.heart());
    } catch (const FileError& error) {
      keep_elsewhere(directory_->path(), weights, described, error);
    }
    if (trainer_.skipped_steps() > 0)
      spdlog::warn("{} of {} steps were skipped", trainer_.skipped_steps(), done_ - first);
    if (!classes_.empty()) fmt::print("\n{}\n", detection_table({result.metrics, classes_}));
    const std::string speed = result.images_per_second ? fmt::format("{:.0f} img/s; ", *result.images_per_second) : "";
    spdlog::info("done: test {}; {}{}/result.json", show(test_, 2, true, ", "), speed, directory_->path());
  }

  Result result_of(int64_t steps, double wall) {
    TrainingStep& step = trainer_.training_step();
    Result result;
    result.metrics = judge_first(trainer_.task(), test_);
    for (const DetectionFigures::Class& of : classes_)
      if (of.objects > 0) result.by_class.push_back({of.name, of.figures.front().value});
    if (best_) result.best = best_->evaluation();
    result.epochs = epochs_of(done_);
    result.steps = done_;
    result.ranks = transport_.size();
    result.rank_history = rank_history_;
    result.images = done_ * config_.data.batch;
    result.images_per_epoch = steps_per_epoch_ * config_.data.batch;
    result.backend = trainer_.backend().name();
    result.isa = trainer_.backend().isa();
    result.threads = threads_of_rank(config_, transport_);
    result.policy = config_.policy.name;
    if (steps > 0) {
      result.images_per_second = double(steps * config_.data.batch) / train_seconds_;
      result.wall_seconds = wall;
      result.wire_bytes_per_step = uint64_t(step.exchange().wire_bytes() / steps);
    }
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    result.peak_memory_bytes = uint64_t(usage.ru_maxrss) * 1024;
    result.arena_bytes = step.plan().arena_bytes();
    result.weights_sha256 = trainer_.state().weights_sha256();
    result.data = data_fingerprint();
    result.commit = commits_;
    return result;
  }

  const Config& config_;
  Transport& transport_;
  RankWatch& watch_;
  Trainer trainer_;
  std::optional<RunDirectory> directory_;  // rank 0's
  std::unique_ptr<CheckpointStore> store_;
  std::optional<BestWeights> best_;
  std::unique_ptr<MetricsWriter> metrics_;
  DeletionWatch deletions_{config_, watch_};
  std::unique_ptr<Progress> progress_;
  Scalars test_;                                  // figures of the last evaluation
  std::vector<DetectionFigures::Class> classes_;  // a detector's, of the last evaluation
  int64_t steps_per_epoch_ = 0, total_steps_ = 0;
  int64_t done_ = 0;               // completed steps
  bool finished_ = false;          // the run was complete when this process started
  bool owes_test_ = false;         // the run was stopped after the last step of an epoch and before its evaluation
  bool test_is_recorded_ = false;  // metrics.jsonl already holds that evaluation
  std::string rank_history_;       // "1 from step 0, 4 from step 500"
  std::string commits_ = commit;   // commits of the builds that trained the run
  EpochSums epoch_;                // of the steps of this epoch; resumed on rank 0 alone
  StragglerWatch stragglers_;
  double looked_ = 0, train_seconds_ = 0;
  double saved_ = seconds_now(), saved_at_ = 0;  // the last checkpoint, or the start; since 1970, 0: none yet
  bool cannot_export_ = false;
};

}  // namespace

int run_train(const Config& config, Transport& transport, const TrainOptions& options, RankWatch& watch) {
  stop_on(training_stops);        // first, since a job may be stopped while it reads its data
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the limit of `ulimit -f` a write fails, but the run continues
  require_what_training_needs(config);
  return TrainingRun(config, transport, options, watch).run();
}

}  // namespace octet
