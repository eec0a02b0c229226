// Trains a network from the first step, or from a checkpoint, to the result.
#pragma once
#include <csignal>
#include <functional>
#include <initializer_list>
#include <string>

#include "comm/transport.h"
#include "kernels/base/exit_codes.h"
#include "kernels/base/stop_signals.h"
#include "src/config/config.h"
#include "src/run/rank_watch.h"
#include "src/train/schedule.h"
#include "src/train/training_step.h"

namespace octet {

// The signals at which the program's training writes a checkpoint and ends.
inline constexpr std::initializer_list<int> training_stops = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};

struct TrainOptions {
  std::string run_directory;  // empty: runs/<name of the configuration>, or the next free runs/<name>-2 ...
  bool resume = false;
  bool prints = true;  // progress and tables, on standard output
  // Whether this rank is to write a checkpoint and end. Asked before each step and each batch of an evaluation.
  std::function<bool()> stop = stop_requested;
  // Rank 0's, after each step; absent on all ranks or on none. False: as `stop`, after this step.
  std::function<bool(const StepCount&, const StepReport&, double learning_rate)> on_step = {};
};
struct TrainingEnd {
  ExitCode code;               // exit_done, or exit_checkpointed: it was stopped
  std::string directory = {};  // of the run; rank 0's
  int64_t steps = 0;           // that are done
};
// Collective. Handles no signals: the caller does, and leaves writes to fail that go beyond `ulimit -f` (SIGXFSZ).
TrainingEnd run_train(const Config&, Transport&, const TrainOptions&, RankWatch&);

}  // namespace octet
