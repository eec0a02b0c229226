#include "kernels/base/exit_codes.h"

namespace octet {

std::span<const ExitMeaning> exit_meanings() {
  static constexpr ExitMeaning meanings[] = {
      {exit_done, false, "done"},
      {exit_failure, false, "failure of another kind"},
      {exit_usage, false, "wrong command line, configuration or data"},
      {exit_nonfinite, false, "the training has diverged: loss, gradient or weights are not finite"},
      {exit_no_checkpoint, false, "none of the run's checkpoints can be used"},
      {exit_disk, true, "a file cannot be written or read: full disk, quota, failing disk"},
      {exit_in_use, true, "another process trains in the run directory"},
      {exit_mismatch, false, "launcher and MPI library do not match"},
      {exit_hang, true, "a rank hung, and the watchdog ended the job"},
      {exit_lost_peer, true, "another rank or the network was lost"},
      {exit_checkpointed, true, "stopped by a signal after a checkpoint"},
  };
  return meanings;
}

}  // namespace octet
