#include "src/train/training_log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/base/command_line.h"
#include "kernels/base/error.h"
#include "src/quant/distribution.h"
#include "src/run/prometheus.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

// The figures of a training step that are recorded.
Scalars headlines(const Scalars& figures) {
  Scalars chosen;
  std::ranges::copy_if(figures, std::back_inserter(chosen),
                       [](const Scalar& figure) { return display_of(figure.name).main; });
  return chosen;
}

// Writes the clip of each layer that was chosen at this step; histograms: also the distribution from which it was.
void record_clips(const ClipCoordinator& clips, int64_t step, bool histograms, MetricsWriter& metrics) {
  std::vector<ClipRecord> records;
  const std::vector<ClipChoice> choices = clips.state().choices;
  for (int layer = 0; layer < clips.layers(); ++layer) {
    const ClipChoice& choice = choices[static_cast<size_t>(layer)];
    records.push_back(
        {clips.name(layer), choice.clip, choice.cosine_distance, choice.lr_scale, clips.saturated_share(layer)});
  }
  metrics.write_clips(step, records);
  for (int layer = 0; histograms && layer < clips.layers(); ++layer)
    metrics.write_histogram(step, clips.name(layer), -44, clips.octaves(layer),
                            kolmogorov_smirnov(clips.summed(layer)));
}

double loss_in(const Scalars& figures) {
  const auto found = std::ranges::find(figures, "loss", &Scalar::name);
  return found == figures.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

}  // namespace

TrainingLog::TrainingLog(const Config& config, const Trainer& trainer, const Transport& transport, RunFiles& files,
                         const Heart& heart, bool prints)
    : config_(config), trainer_(trainer), files_(files), heart_(heart), alone_(transport.size() == 1) {
  if (prints) progress_.emplace(config.train.log_every_steps);
  const std::string& exported = config.train.prometheus;
  REQUIRE_USAGE(exported.empty() || may_write_prometheus(exported), "name another file, or move it away",
                "train.prometheus: ", exported, " is not a file that octet wrote, and is left as it is");
  const std::string note = trainer.backend().note();
  spdlog::info("{} on {}", config.model.name, trainer.datasets().train->describe());
  spdlog::info("on {}", trainer.shares().text());
  spdlog::info("policy {}, storage {}, {} rank(s), {} {}{}, arena {:.1f} MB, {} parameters, run directory {}",
               config.policy.name, name_of(storage_of(config)), transport.size(), trainer.backend().name(),
               trainer.backend().isa(), note.empty() ? "" : " (" + note + ")",
               double(trainer.training_step().plan().arena_bytes()) / 1e6, trainer.training_step().parameters().count(),
               files.path());
}

void TrainingLog::step(const StepCount& at, const StepReport& report, double seconds, double waited) {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  const double data_share = waited / std::max(seconds, 1e-9);
  if (report.skipped)
    spdlog::warn("step {}: {}; the step was skipped", at.done,
                 report.empty ? "no image of the batch could be read" : "loss or gradient is not finite");
  const int64_t epoch = (at.done - 1) / at.of_epoch;
  if (stepped_ > 0 && (at.done - 1) % at.of_epoch == 0) {
    between_epochs_ += now - stepped_ - seconds;
    ++epochs_ended_;
  }
  stepped_ = now;
  if (progress_)
    progress_->step({.epoch = epoch + 1,
                     .epochs = at.epochs(),
                     .step = at.done - epoch * at.of_epoch,
                     .steps = at.of_epoch,
                     .steps_left = at.total - at.done,
                     .other_seconds_left = other_seconds_left(at),
                     .images = config_.data.batch,
                     .figures = show_each(report.figures, 1, false),
                     .data_share = data_share},
                    now);
  if (at.done % config_.train.log_every_steps == 0 || at.done == 1 || at.ends())
    record(at, report, seconds, data_share);
  if (report.clips_updated)
    record_clips(*trainer_.training_step().clips(), at.done, config_.policy.clip.record_histograms,
                 files_.metrics(at.done));
  if (!alone_ && now - looked_ > 1) {
    looked_ = now;
    if (const auto slow = stragglers_.look(now, seen_ranks())) spdlog::warn("{}", *slow);
  }
}

// As long as it was after the epochs so far, also after the last one.
double TrainingLog::other_seconds_left(const StepCount& at) const {
  if (epochs_ended_ == 0) return 0;
  return between_epochs_ / double(epochs_ended_) * double(at.epochs() - at.done / at.of_epoch);
}

void TrainingLog::record(const StepCount& at, const StepReport& report, double seconds, double data_share) {
  const double images_per_second = double(config_.data.batch) / seconds;
  Scalars scalars = headlines(report.figures);
  scalars.insert(scalars.end(), {{"learning_rate", trainer_.learning_rate_at(at.done - 1)},
                                 {"images_per_second", images_per_second},
                                 {"data_wait_share", data_share},
                                 {"exchange_hidden_share", trainer_.hidden_share()}});
  if (trainer_.training_step().ranges()) scalars.push_back({"saturated_activations", report.saturated_activations});
  files_.metrics(at.done).write(at.done, "train", scalars);
  export_figures(at, scalars, images_per_second);
}

void TrainingLog::epoch(const StepCount& at, const EpochRecord& record, const std::string& test, bool best) {
  if (!progress_) return;
  progress_->epoch({.epoch = at.epoch(),
                    .epochs = at.epochs(),
                    .train = record.means.empty() ? "every step was skipped" : show(record.means, 1, false, " "),
                    .test = test,
                    .best = best,
                    .images_per_second = double(record.steps * config_.data.batch) / record.seconds,
                    .seconds = record.seconds});
}

void TrainingLog::test(int64_t steps, const Scalars& train, const Scalars& test) {
  constexpr int64_t settled = 50;  // steps: of the initial values, 0.9 to this power is left
  const bool norms = std::ranges::any_of(trainer_.training_step().parameters().statistics(), [](const auto& statistic) {
    return statistic.name.ends_with(".running_var");
  });
  if (norms && steps < settled && loss_in(test) > 2 * loss_in(train))
    spdlog::info(
        "the test loss is far above the training loss: a test uses the norms' running means and variances, which "
        "have not settled after {} steps; they begin at 0 and 1",
        steps);
}

void TrainingLog::end(const Result& result, const Judge& test, int64_t steps) {
  if (trainer_.skipped_steps() > 0) spdlog::warn("{} of {} steps were skipped", trainer_.skipped_steps(), steps);
  if (progress_ && test.detection_figures()) fmt::print("\n{}\n", test.table());
  const std::string speed = result.images_per_second ? fmt::format("{:.0f} img/s; ", *result.images_per_second) : "";
  spdlog::info("done: test {}; {}{}/result.json", show(test.figures(), 2, true, ", "), speed, files_.path());
  const BestEvaluation* const best = files_.best();
  const std::string run = shell_word(files_.path());
  spdlog::info("{}; next: octet predict {} IMAGES, octet inspect {}",
               best == nullptr
                   ? say("weights: ", files_.path(), "/weights.safetensors")
                   : say("best evaluation: epoch ", best->epoch, ", ", show({best->figures.front()}, 2, true, ""), ": ",
                         files_.path(), "/best.safetensors"),
               run, run);
}

void TrainingLog::export_figures(const StepCount& at, const Scalars& scalars, double images_per_second) {
  const std::string& file = config_.train.prometheus;
  if (file.empty() || cannot_export_) return;
  cannot_export_ = !write_prometheus(
      file, {files_.path(), at.done, at.total, images_per_second, files_.saved_at(), scalars, seen_ranks()});
  if (cannot_export_) spdlog::warn("{}: cannot be written, and is left as it is", file);
}

// This rank and the others that it sees.
std::vector<Heartbeat> TrainingLog::seen_ranks() const {
  std::vector<Heartbeat> ranks = {heart_.own().last};
  for (const Sighting& other : heart_.others()) ranks.push_back(other.last);
  return ranks;
}

}  // namespace octet
