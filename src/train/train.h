// Trains a network from the first step, or from a checkpoint, to the result.
#pragma once
#include <csignal>
#include <initializer_list>
#include <string>

#include "comm/transport.h"
#include "kernels/base/exit_codes.h"
#include "src/config/config.h"
#include "src/run/rank_watch.h"

namespace octet {

// The signals at which a training writes a checkpoint and ends.
inline constexpr std::initializer_list<int> training_stops = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};

struct TrainOptions {
  std::string run_directory;  // empty: runs/<name of the configuration>, or the next free runs/<name>-2 ...
  bool resume = false;
};
// Collective. Returns the process's exit code.
int run_train(const Config&, Transport&, const TrainOptions&, RankWatch&);

}  // namespace octet
