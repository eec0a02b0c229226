// A training of a study, run in a process of its own, so that a training that fails or crashes ends alone.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace octet {

// From now on, a signal that asks the study to stop is passed to its training as SIGUSR1, which mpirun gives to every
// rank. The training writes a checkpoint and ends; then the study ends. stop_requested(): such a signal has arrived.
void stop_with_training();

// Runs a command to its end, and appends its output to `log`. Returns its exit code; 128 + signal where one ended it.
int run_training(const std::vector<std::string>& words, const std::filesystem::path& log);

}  // namespace octet
