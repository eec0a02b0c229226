// The files of a run, in one directory.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/config/config.h"
#include "src/data/loader.h"
#include "src/run/best_weights.h"
#include "src/run/checkpoint_store.h"
#include "src/run/metrics.h"
#include "src/run/rank_watch.h"
#include "src/run/result.h"
#include "src/run/resume_point.h"
#include "src/run/run_directory.h"

namespace octet {

// Owns the directory, its lock, checkpoints, best weights, records and result. Rank 0 alone has it, so no function is
// collective. What is deleted in mid-run is made again before the next write, with a warning; InUseError: another
// training has begun there meanwhile. Steps are those that are done.
class RunFiles {
 public:
  // Creates and locks the directory, see RunDirectory.
  RunFiles(const Config&, const std::string& wanted, bool resume, TrainingData, Classes, RankWatch&);

  const std::string& path() const { return directory_.path(); }
  // The checkpoint to go on from on so many ranks, see resume_point(); without a file the run starts over. UsageError:
  // it has more than total_steps, or the run is finished and has no checkpoint.
  CheckpointStore::Found resume(int64_t total_steps, int ranks);
  // Whether an earlier process ended the training after this step.
  bool finished_at(int64_t step) const { return finished_ && finished_->steps == step; }
  // Begins to train from this step: writes the configuration, removes an earlier result, and opens the records.
  void begin(int64_t step, int ranks);

  MetricsWriter& metrics(int64_t step);
  // Returns false if the checkpoint cannot be written: the last good one is kept, and a warning says so. epoch_sums:
  // within an epoch EpochSums::text(), else empty. last: this process ends. The log has the first two checkpoints and
  // the last one, those that took long, and one a minute of the others.
  bool save(int64_t step, std::span<const NamedTensor>, const std::string& epoch_sums, bool last);
  // checkpoint.every_minutes have passed since the last checkpoint, or since the start.
  bool checkpoint_is_due() const;
  double saved_at() const { return saved_at_; }  // in seconds since 1970; 0: there was no checkpoint yet

  // Replaces the best weights by those of `evaluation` if its first figure is greater. weights: called only then.
  void keep_if_best(const BestEvaluation& evaluation, const std::function<OwnedTensors()>& weights);
  const BestEvaluation* best() const { return best_ && best_->evaluation() ? &*best_->evaluation() : nullptr; }

  // Writes weights and result, to which it adds what it knows. A full disk is waited for; then the weights go
  // elsewhere, and a FileError says where. gives_up: ends the wait.
  void finish(std::span<const NamedTensor> weights, Result, const std::function<bool()>& gives_up);

 private:
  double spent() const;  // seconds of training, with those before the checkpoint from which the run was resumed
  std::map<std::string, std::string> metadata() const;
  std::map<std::string, std::string> metadata_to_share() const;
  void log_checkpoint(int64_t step, double seconds, bool last);
  void restore(int64_t step);
  void make_again(int64_t step);

  const Config& config_;
  const TrainingData data_;
  const Classes classes_;
  RankWatch& ranks_;
  RunDirectory directory_;
  CheckpointStore store_;
  const std::optional<Result> finished_;  // of an earlier process
  std::optional<BestWeights> best_;       // empty: checkpoint.best is false
  std::unique_ptr<MetricsWriter> metrics_;
  std::string rank_history_;            // "1 from step 0, 4 from step 500"
  std::string commits_;                 // of the builds that trained the run
  double saved_, saved_at_ = 0;         // the last checkpoint, or the start
  double begun_ = 0, earlier_ = 0;      // when training began; the seconds of earlier processes, up to the checkpoint
  int64_t checkpoints_ = 0;             // of this process
  double logged_ = 0;                   // when the log named one
  bool told_ = false, failed_ = false;  // that something was deleted, and cannot be made again
};

}  // namespace octet
