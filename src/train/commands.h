// What the command line can ask for. Each returns the process's exit code.
#pragma once
#include <string>
#include <vector>

#include "comm/transport.h"
#include "src/config/config.h"

namespace octet {

inline constexpr int exit_in_use = 75;  // another process trains in the run directory
inline constexpr int exit_checkpointed =
    85;  // stopped by a signal after a checkpoint; the same command with --resume goes on

struct TrainOptions {
  std::string run_directory;  // empty: runs/<name of the configuration>, or the next free runs/<name>-2 ...
  bool resume = false;
};
int run_train(const Config&, Transport&, const TrainOptions&);
int run_eval(const Config&, Transport&, const std::string& weights);
int run_plan(const Config&, Transport&);
int run_bench(const Config&, Transport&, int64_t steps, bool json);
// Replaces this process by bench/peers/compare.py. networks: empty for all; options: handed on.
int run_bench_peer(const std::vector<std::string>& networks, const std::vector<std::string>& options);
// overrides: key=value, for backend.device, backend.isa and backend.threads.
int run_bench_kernels(const std::string& filter, bool json, const std::vector<std::string>& overrides);

}  // namespace octet
