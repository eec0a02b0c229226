#include "src/run/run_files.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/base/durable_file.h"
#include "src/run/arithmetic.h"
#include "src/run/final_write.h"
#include "src/version.h"
#include "src/weights/class_names.h"
#include "src/weights/pixel_normalization.h"
#include "src/weights/recipe.h"
#include "src/weights/weights_file.h"

namespace octet {
namespace {

constexpr const char* seconds_key = "seconds";  // of a checkpoint's metadata: of the training until then

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The number of ranks at the end of a history; 0 if it is empty.
int last_ranks(const std::string& history) {
  const size_t comma = history.rfind(", ");
  return std::atoi(history.c_str() + (comma == std::string::npos ? 0 : comma + 2));
}

// Adds the present number of ranks to the history of a run that is resumed at `step`, if it is another one, and warns
// if this changes the weights (exact: the exchange keeps them). An empty history stays empty.
void continue_on_ranks(std::string& history, int ranks, int64_t step, bool exact) {
  const int before = last_ranks(history);
  if (history.empty() || before == ranks) return;
  history += fmt::format(", {} from step {}", ranks, step);
  if (!exact)
    spdlog::warn(
        "the run goes on with {} ranks after {}: its weights will be others than those of an unchanged run; "
        "comm.exchange: exact would keep them",
        ranks, before);
}

}  // namespace

RunFiles::RunFiles(const Config& config, const std::string& wanted, bool resume, TrainingData data, Classes classes,
                   RankWatch& ranks)
    : config_(config),
      data_(std::move(data)),
      classes_(std::move(classes)),
      ranks_(ranks),
      directory_(config, wanted, resume),
      store_(path(), config.checkpoint.keep),
      finished_(read_result(path())),
      commits_(commit),
      saved_(seconds_now()) {}

CheckpointStore::Found RunFiles::resume(int64_t total_steps, int ranks) {
  const auto finished = finished_at(total_steps) ? std::optional(total_steps) : std::nullopt;
  CheckpointStore::Found found = resume_point(store_, path(), config_, data_, finished);
  if (!found.file) {
    REQUIRE_USAGE(!finished_, "choose another directory, or move result.json and weights.safetensors away", path(),
                  " holds a result but no checkpoints");
    spdlog::info("nothing to resume in {}: starting at step 0", path());
    return found;
  }
  REQUIRE_USAGE(found.step <= total_steps, "raise train.steps, or start a new run", found.path,
                " has more steps than the configured ", total_steps);
  const auto& metadata = found.file->metadata();
  if (metadata.contains("commit")) commits_ = metadata.at("commit");
  if (!commits_.ends_with(commit)) commits_ += std::string(", then ") + commit;
  rank_history_ = metadata.contains("ranks") ? metadata.at("ranks") : "";
  earlier_ = metadata.contains(seconds_key) ? std::atof(metadata.at(seconds_key).c_str()) : 0;
  continue_on_ranks(rank_history_, ranks, found.step, config_.comm.exchange == "exact");
  if (config_.checkpoint.best && found.step > 0) best_.emplace(path(), /*resumed=*/true);
  return found;
}

void RunFiles::begin(int64_t step, int ranks) {
  begun_ = seconds_now();
  if (rank_history_.empty()) rank_history_ = fmt::format("{} from step {}", ranks, step);
  ranks_.heart().enter(activity::saving);
  directory_.begin(config_);
  if (config_.checkpoint.best && !best_) best_.emplace(path(), /*resumed=*/false);
  ranks_.heart().enter(activity::saving);
  metrics_ = std::make_unique<MetricsWriter>(path(), step > 0 ? step : -1);
  metrics_->write_settings(config_);
}

MetricsWriter& RunFiles::metrics(int64_t step) {
  restore(step);
  return *metrics_;
}

bool RunFiles::save(int64_t step, std::span<const NamedTensor> tensors, const std::string& epoch_sums, bool last) {
  restore(step);
  std::map<std::string, std::string> described = metadata();
  described["ranks"] = rank_history_;
  described[arithmetic_key] = std::to_string(arithmetic);
  described[seconds_key] = fmt::format("{:.3f}", spent());
  if (!epoch_sums.empty()) described["epoch_sums"] = epoch_sums;
  const double before = seconds_now();
  try {
    store_.save(step, tensors, std::move(described));
  } catch (const FileError& error) {
    const auto last = CheckpointStore::newest_of(path());
    spdlog::warn("no checkpoint at step {}: {}; {}", step, error.what(),
                 last ? fmt::format("the last good checkpoint, of step {}, is kept", last->step)
                      : "there is no checkpoint at all, so a run that ends now would start over");
    return false;
  }
  saved_ = seconds_now();
  saved_at_ = seconds_since_1970();
  log_checkpoint(step, saved_ - before, last);
  return true;
}

double RunFiles::spent() const { return earlier_ + seconds_now() - begun_; }

// A short training may write a hundred checkpoints, and its log is read by people.
void RunFiles::log_checkpoint(int64_t step, double seconds, bool last) {
  constexpr double slow = 5, period = 60;
  if (++checkpoints_ > 2 && !last && seconds < slow && saved_ - logged_ < period) return;
  logged_ = saved_;
  spdlog::info("checkpoint at step {}, in {:.1f} s", step, seconds);
}

bool RunFiles::checkpoint_is_due() const {
  return config_.checkpoint.every_minutes > 0 && seconds_now() - saved_ >= 60 * config_.checkpoint.every_minutes;
}

void RunFiles::keep_if_best(const BestEvaluation& evaluation, const std::function<OwnedTensors()>& weights) {
  restore(evaluation.step);
  if (!best_ || !best_->exceeded_by(evaluation.figures)) return;
  try {
    best_->replace(evaluation, weights(), metadata_to_share());
  } catch (const FileError& error) {
    spdlog::warn("the best weights so far, of step {}, are not kept: {}", evaluation.step, error.what());
  }
}

void RunFiles::finish(std::span<const NamedTensor> weights, Result result, const std::function<bool()>& gives_up) {
  restore(result.steps);
  const std::map<std::string, std::string> described = metadata_to_share();
  if (best() != nullptr) result.best = *best();
  result.rank_history = rank_history_;
  result.wall_seconds = spent();
  result.data = data_.fingerprint;
  result.commit = commits_;
  const double limit = config_.comm.timeout_seconds, patience = limit > 0 ? limit : 180;
  try {
    write_patiently(
        [&] {
          write_weights(path() + "/weights.safetensors", weights, described);
          write_result(path(), result);
        },
        patience, gives_up, ranks_.heart());
  } catch (const FileError& error) {
    keep_elsewhere(path(), weights, described, error);
  }
}

// Of the files of weights that leave the run; a checkpoint is for this machine.
std::map<std::string, std::string> RunFiles::metadata_to_share() const {
  std::map<std::string, std::string> all = metadata();
  all["config"] = recipe_to_share(config_);
  return all;
}

// What all files of weights say about the run.
std::map<std::string, std::string> RunFiles::metadata() const {
  std::map<std::string, std::string> all = {
      {"config", to_yaml(config_)}, {"commit", commits_}, {"data", data_.fingerprint}};
  add_classes(classes_, all);
  add_normalization(normalization_of(config_.data), all);
  return all;
}

// Called before each write. Makes again what was deleted from the directory, or with it. The folder of checkpoints is
// not looked at: CheckpointStore makes it again.
void RunFiles::restore(int64_t step) {
  const std::string deleted = directory_.deleted() ? path() : metrics_->deleted_file();
  if (deleted.empty()) return;
  ranks_.heart().enter(activity::saving);
  if (!std::exchange(told_, true))
    spdlog::warn("{} was deleted in mid-run: what it held is lost, and the training goes on with a new one", deleted);
  try {
    make_again(step);
    told_ = failed_ = false;
  } catch (const InUseError&) {
    throw;
  } catch (const Error& error) {
    if (!std::exchange(failed_, true)) spdlog::warn("{} cannot be made again yet: {}", deleted, error.what());
  }
}

void RunFiles::make_again(int64_t step) {
  if (directory_.deleted()) {
    directory_.make_again(config_);
    ranks_.make_file_again();
  }
  metrics_ = std::make_unique<MetricsWriter>(path(), step);
  if (best_) best_.emplace(path(), /*resumed=*/true);
}

}  // namespace octet
