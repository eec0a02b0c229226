// A training: epochs of steps, evaluation, checkpoints, and the stop.
#include "src/train/train.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "kernels/base/durable_file.h"
#include "src/data/images/training_sheet.h"
#include "src/run/run_files.h"
#include "src/tasks/metric_display.h"
#include "src/train/dry_plan.h"
#include "src/train/epoch_sums.h"
#include "src/train/settle.h"
#include "src/train/trainer.h"
#include "src/train/training_log.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;

class TrainingRun {
 public:
  TrainingRun(const Config& config, Transport& transport, const TrainOptions& options, RankWatch& watch)
      : config_(config),
        transport_(transport),
        options_(options),
        watch_(watch),
        trainer_(config, transport, true, &watch.heart()),
        at_(config.train, trainer_.steps_per_epoch()) {}

  TrainingEnd run() try {
    begin();
    if (finished_) return ended(exit_done);
    trainer_.start(at_.done);
    if (owes_test_ && !test()) return checkpointed(true);  // the checkpoint from which it resumed
    while (!at_.ends()) {
      const StepReport report = train_step();
      if (at_.ends()) trainer_.require_convergence();  // before a checkpoint says that the run has ended
      const bool stops = report.stop && !at_.ends();
      const int64_t every = config_.checkpoint.every_steps > 0 ? config_.checkpoint.every_steps : at_.of_epoch;
      // Before the checkpoint, since a run that is resumed there does not repeat the epoch.
      if (at_.ends_epoch() && files_) record_epoch();
      const bool due = stops || at_.ends() || at_.done % every == 0 || due_by_time();
      const bool saved = due && save();  // before the evaluation, which a scheduler that stops the run may not wait for
      if (stops) return checkpointed(saved);
      if (at_.ends_epoch() && !finish_epoch()) return checkpointed(saved || save());
      if (at_.ends() && !due) save();  // the training ends early
    }
    finish();
    return ended(exit_done);
  } catch (const NonFiniteError& error) {
    watch_.heart().end(activity::diverged);
    throw files_ ? NonFiniteError(error.reason, way_back(files_->path())) : error;
  }

 private:
  bool leads() const { return transport_.rank() == 0; }
  TrainingEnd ended(ExitCode code) const { return {code, files_ ? files_->path() : "", at_.done}; }

  // Opens the run on rank 0, and brings all ranks to the step where it goes on.
  void begin() {
    if (!options_.resume) load_initial_weights();
    trainer_.expect_files();
    if (leads()) open();
    trainer_.heart().enter(activity::comparing);
    int64_t state[] = {at_.done, finished_ ? 1 : 0, owes_test_ ? 1 : 0, at_.total};
    transport_.broadcast(std::as_writable_bytes(std::span(state)), 0);
    at_.done = state[0], finished_ = state[1] != 0, owes_test_ = state[2] != 0, at_.total = state[3];
    if (at_.done > 0)
      trainer_.state().broadcast(transport_);
    else if (options_.resume)
      load_initial_weights();
    if (!finished_)
      watch_.share(files_ ? files_->path() : "",
                   {.first_step = at_.done, .total_steps = at_.total, .images = config_.data.batch}, transport_);
  }

  void load_initial_weights() {
    if (const std::string loaded = trainer_.load_initial_weights(); leads() && !loaded.empty())
      spdlog::info("{}", loaded);
  }

  // Rank 0's.
  void open() {
    const Datasets& data = trainer_.datasets();
    files_.emplace(config_, options_.run_directory, options_.resume,
                   TrainingData{fmt::format("{:016x}", trainer_.data_fingerprint()), data.train->describe()},
                   classes_of(*data.train), watch_);
    if (options_.resume) resume();
    if (files_->finished_at(at_.done) && out_of_patience()) at_.total = at_.done;
    if (finished_ = at_.ends() && files_->finished_at(at_.done); finished_) {
      spdlog::info("{} is finished: its result is in {}/result.json", files_->path(), files_->path());
      return;
    }
    files_->begin(at_.done, transport_.size());
    if (at_.done == 0) show_images(*data.train);
    // The evaluation after the last step is repeated even if it is recorded, since the result needs its figures.
    const bool recorded = files_->metrics(at_.done).holds(at_.done, "test");
    owes_test_ = at_.done > 0 && at_.tests() && (at_.ends() || !recorded);
    test_is_recorded_ = owes_test_ && recorded;
    log_.emplace(config_, trainer_, transport_, *files_, watch_.heart(), options_.prints);
  }

  void show_images(const Dataset& data) {
    const Sheet sheet = training_sheet(data, uint64_t(config_.seed));
    if (sheet.width > 0) files_->metrics(0).write_picture(0, "train/images", sheet.width, sheet.height, sheet.png);
  }

  void resume() {
    const CheckpointStore::Found found = files_->resume(at_.total, transport_.size());
    if (!found.file) return;
    const auto sums = found.file->metadata().find("epoch_sums");
    if (sums != found.file->metadata().end()) epoch_ = EpochSums::from_text(sums->second);
    trainer_.state().load(*found.file, found.path, {.optimizer = true});
    at_.done = found.step;
    spdlog::info("resumed {} at step {} of {}, on {} rank(s)", found.path, at_.done, at_.total, transport_.size());
  }

  StepReport train_step() {
    const Clock::time_point start = Clock::now();
    const double waited = trainer_.wait_seconds();
    StepReport report = trainer_.step(at_.done, options_.stop());
    ++at_.done;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    ++time_.steps;
    time_.in_steps += seconds;
    epoch_.add(report, seconds);
    if (log_) log_->step(at_, report, seconds, trainer_.wait_seconds() - waited);
    if (options_.on_step) report.stop = decided(files_ && !goes_on(report)) || report.stop;
    return report;
  }

  bool goes_on(const StepReport& report) const {
    return options_.on_step(at_, report, trainer_.learning_rate_at(at_.done - 1));
  }

  // What rank 0 decides, on every rank.
  bool decided(bool by_rank_0) {
    int64_t decision = by_rank_0 ? 1 : 0;
    transport_.broadcast(std::as_writable_bytes(std::span(&decision, 1)), 0);
    return decision != 0;
  }

  bool due_by_time() {
    if (config_.checkpoint.every_minutes <= 0) return false;
    trainer_.heart().enter(activity::exchange);
    return decided(files_ && files_->checkpoint_is_due());
  }

  // Whether the last evaluations were no better than an earlier one, as many as train.patience says. Rank 0's.
  bool out_of_patience() const {
    const int64_t patience = config_.train.patience * config_.train.eval_every_epochs;
    return patience > 0 && files_->best() != nullptr && at_.epoch() - files_->best()->epoch >= patience;
  }
  // Ends the training after the present epoch if rank 0 is out of patience.
  void end_early() {
    if (!decided(files_ && !at_.ends() && out_of_patience())) return;
    at_.total = at_.done;
    if (files_)
      spdlog::info("no better evaluation since epoch {}: the training ends, as train.patience: {} says",
                   files_->best()->epoch, config_.train.patience);
  }

  // Returns false if a stop interrupted the evaluation. A resumed run then begins with it.
  bool test() {
    const bool may_be_last = at_.ends() || config_.train.patience > 0;
    std::unique_ptr<Judge> judge = trainer_.evaluate(options_.stop, may_be_last);
    if (!judge) return false;
    test_ = std::move(judge);
    trainer_.expect_files();
    if (files_) record_test();
    transport_.barrier();  // the others' next step does not begin while rank 0 writes
    return true;
  }

  void record_test() {
    // First, since a run that is resumed before the evaluation is recorded repeats it.
    files_->keep_if_best({at_.epoch(), at_.done, main_figure_first(trainer_.task(), test_->figures())},
                         [&] { return trainer_.state().save(true); });
    log_->test(at_.done, epoch_.record(at_.epoch()).means, test_->figures());
    test_->write(files_->path(), at_.done);
    if (!std::exchange(test_is_recorded_, false)) files_->metrics(at_.done).write(at_.done, "test", test_->figures());
  }

  bool finish_epoch() {
    const bool tested = at_.tests();
    if (tested && !test()) return false;
    const EpochRecord record = std::exchange(epoch_, {}).record(at_.epoch());
    if (log_)
      log_->epoch(at_, record, tested ? show(test_->figures(), 1, false, " ") : "",
                  tested && files_->best() != nullptr && files_->best()->step == at_.done);
    if (config_.train.patience > 0) end_early();
    return true;
  }

  void record_epoch() {
    EpochRecord record = epoch_.record(at_.epoch());
    record.learning_rate = trainer_.learning_rate_at(at_.done - 1);
    files_->metrics(at_.done).write_epoch(at_.done, record);
  }

  void agree_on_weights() {
    trainer_.heart().enter(activity::comparing);
    trainer_.state().check_agreement(transport_);
    trainer_.expect_files();
  }

  // Returns false if the checkpoint cannot be written; the last good one is kept.
  bool save() {
    agree_on_weights();
    bool saved = true;
    if (files_)
      saved = files_->save(at_.done, trainer_.state().save(false), at_.done % at_.of_epoch != 0 ? epoch_.text() : "",
                           at_.ends() || options_.stop());
    return decided(saved);
  }

  TrainingEnd checkpointed(bool saved) {
    const char* const by = options_.on_step ? "as asked" : "by a signal";  // which may be another rank's
    if (!saved)
      throw FileError(__FILE__, __LINE__,
                      say("stopped ", by, " at step ", at_.done, "; the checkpoint could not be written"),
                      "free space on the disk; --resume continues from the last good checkpoint, if there is one");
    watch_.heart().enter(activity::stopped);
    if (files_)
      spdlog::info("stopped {} at step {}; continue with the same command and --run {} --resume", by, at_.done,
                   files_->path());
    return ended(exit_checkpointed);
  }

  void finish() {
    agree_on_weights();
    if (const int64_t skipped = trainer_.datasets().skipped(); skipped > 0)
      spdlog::warn("{} images could not be read and were left out", skipped);
    if (!files_) return;
    trainer_.require_convergence(test_->figures());
    const Result result = trainer_.result(*test_, at_, time_);
    files_->finish(trainer_.state().save(true), result, options_.stop);
    log_->end(result, *test_, time_.steps);
  }

  const Config& config_;
  Transport& transport_;
  const TrainOptions& options_;
  RankWatch& watch_;
  Trainer trainer_;
  std::optional<RunFiles> files_;   // rank 0's
  std::optional<TrainingLog> log_;  // rank 0's
  StepCount at_;
  EpochSums epoch_;                // of the steps of this epoch; resumed on rank 0 alone
  std::unique_ptr<Judge> test_;    // the last evaluation
  bool finished_ = false;          // the run was complete when this process started
  bool owes_test_ = false;         // the run was stopped after the last step of an epoch and before its evaluation
  bool test_is_recorded_ = false;  // metrics.jsonl already holds that evaluation
  TrainingTime time_;
};

}  // namespace

TrainingEnd run_train(const Config& given, Transport& transport, const TrainOptions& options, RankWatch& watch) {
  require_what_training_needs(given);
  const Config config = settled(given, transport, options.run_directory, options.resume, &watch.heart());
  return TrainingRun(config, transport, options, watch).run();
}

}  // namespace octet
