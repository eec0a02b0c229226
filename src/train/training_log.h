// What people and programs see of a training while it runs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "src/run/run_files.h"
#include "src/train/progress.h"
#include "src/train/schedule.h"
#include "src/train/straggler.h"
#include "src/train/trainer.h"

namespace octet {

// Writes progress, metrics, clips, Prometheus' file and warnings. Rank 0 alone has it.
class TrainingLog {
 public:
  // prints: progress and tables, on standard output.
  TrainingLog(const Config&, const Trainer&, const Transport&, RunFiles&, const Heart&, bool prints);

  // A step that is done. seconds: that it took. waited: of these, for data.
  void step(const StepCount&, const StepReport&, double seconds, double waited);
  // The end of an epoch. test: the figures of its evaluation; empty: there was none. best: it is the best so far.
  void epoch(const StepCount&, const EpochRecord&, const std::string& test, bool best);
  // An evaluation after so many steps. The first ones of a short training may be far off, which looks like a defect:
  // says why. train, test: the figures of the epoch and of its test.
  void test(int64_t steps, const Scalars& train, const Scalars& test);
  // The end. steps: that this process trained.
  void end(const Result&, const Judge& test, int64_t steps);

 private:
  double other_seconds_left(const StepCount&) const;
  void record(const StepCount&, const StepReport&, double seconds, double data_share);
  void export_figures(const StepCount&, const Scalars&, double images_per_second);
  std::vector<Heartbeat> seen_ranks() const;

  const Config& config_;
  const Trainer& trainer_;
  RunFiles& files_;
  const Heart& heart_;                // sees the other ranks
  const bool alone_;                  // there is no other rank
  std::optional<Progress> progress_;  // empty: nothing is printed
  StragglerWatch stragglers_;
  double looked_ = 0;           // for stragglers
  double stepped_ = 0;          // when the last step ended
  double between_epochs_ = 0;   // seconds between the steps of two epochs: evaluations and checkpoints
  int64_t epochs_ended_ = 0;    // with a step after it
  bool cannot_export_ = false;  // Prometheus' file
};

}  // namespace octet
