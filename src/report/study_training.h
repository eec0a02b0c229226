// A training of a study, run in a process of its own, so that a training that fails or crashes ends alone.
#pragma once
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace octet {

// While it lives, a signal that asks the study to stop is passed to its training as SIGUSR1, which mpirun gives to
// every rank. The training writes a checkpoint and ends; then the study ends.
class StopWithTraining {
 public:
  StopWithTraining();
  ~StopWithTraining();
  StopWithTraining(const StopWithTraining&) = delete;
  StopWithTraining& operator=(const StopWithTraining&) = delete;
  static bool wanted();  // whether such a signal has come

  static constexpr int signals[] = {SIGINT, SIGTERM, SIGUSR1};

 private:
  struct sigaction before_[std::size(signals)] = {};
  sighandler_t before_pipe_ = SIG_DFL;
};

// Runs a command to its end, and appends its output to `log`. Returns its exit code; 128 + signal where one ended it.
int run_training(const std::vector<std::string>& words, const std::filesystem::path& log);

}  // namespace octet
