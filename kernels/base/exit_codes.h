// The exit codes of octet. A launcher may start a job again, with --resume, where the code says that this can help.
#pragma once
#include <span>

namespace octet {

enum ExitCode : int {
  exit_done = 0,
  exit_failure = 1,        // anything else
  exit_usage = 2,          // command line, configuration or data
  exit_nonfinite = 3,      // loss or gradient
  exit_no_checkpoint = 4,  // that can be used
  exit_disk = 74,          // full, or it fails
  exit_in_use = 75,        // another process trains in the run directory
  exit_mismatch = 78,      // launcher and MPI library
  exit_hang = 83,          // the watchdog ended the job
  exit_lost_peer = 84,     // another rank or the network
  exit_checkpointed = 85,  // a signal stopped it
};

struct ExitMeaning {
  ExitCode code;
  bool retry;  // with --resume, without changing anything
  const char* meaning;
};
// Every code, in ascending order.
std::span<const ExitMeaning> exit_meanings();

}  // namespace octet
