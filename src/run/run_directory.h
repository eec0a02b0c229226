// The directory of a run, with the checks that keep a new run from overwriting an old one.
#pragma once
#include <optional>
#include <string>

#include "comm/transport.h"
#include "src/config/keys.h"
#include "src/run/directory_lock.h"

namespace octet {

// Where a run goes on: `wanted`, or if it is empty runs/<name of the configuration file>. UsageError: there are several
// such runs.
std::string directory_to_resume(const Config&, const std::string& wanted);
// The configuration of a run's last start; empty: there is none that can be read.
std::optional<Config> config_of_run(const std::string& directory);

// Used on rank 0 only. Creates and locks the directory. If `wanted` is empty, a resumed run uses runs/<name of the
// configuration file>, and a new run uses the first free one of runs/<name>, runs/<name>-2, -3 ... InUseError: another
// process trains there. UsageError: the directory already holds a run, and `resume` is false.
class RunDirectory {
 public:
  RunDirectory(const Config&, const std::string& wanted, bool resume);
  const std::string& path() const { return path_; }
  // Called after all checks. Writes the resolved configuration to config.yaml, behind the command that began the run
  // and the one that continues it, and removes result and weights of an earlier, shorter training.
  void begin(const Config&) const;
  // Whether the directory, or the lock in it, was deleted in mid-run.
  bool deleted() const { return !lock_ || lock_->deleted(); }
  // Makes it again, locks it and begins. InUseError: another process has taken it meanwhile.
  void make_again(const Config&);

 private:
  const std::string path_;
  std::optional<DirectoryLock> lock_;  // empty: it could not be taken again
};

// Whether a training wrote the file: a run's recipe, records, result, weights or checkpoints.
bool is_of_run(const std::string& file);

// The first key that differs between the two and changes what a step computes.
std::optional<Difference> training_difference(const Config& before, const Config& now);
// Collective. UsageError: the configuration of this rank differs from rank 0's. Such ranks would wait for each other
// forever. Settings of a host may differ: data.root, data.workers, backend.threads, backend.isa.
void require_same_on_ranks(const Config&, Transport&);

}  // namespace octet
