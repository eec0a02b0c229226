// Where a run lives, and what keeps a new run from overwriting an old one.
#pragma once
#include <optional>
#include <string>

#include "comm/transport.h"
#include "src/config/keys.h"
#include "src/train/directory_lock.h"

namespace octet {

// Rank 0 only. Explicit directory: used as it is; refused (UsageError) when it holds a run and resume is false.
// None given: runs/<name of the configuration file>; without resume the next free runs/<name>-2, -3 ...
// Creates the directory. While this lives no other process trains there (InUseError).
class RunDirectory {
 public:
  RunDirectory(const Config&, const std::string& wanted, bool resume);
  const std::string& path() const { return path_; }
  // Nothing refuses the run any more: writes config.yaml, the resolved configuration, and removes result and weights of
  // an earlier, shorter training.
  void begin(const Config&) const;

 private:
  const std::string path_;
  const DirectoryLock lock_;
};

// The first key in which they differ and that decides what each step computes.
std::optional<Difference> training_difference(const Config& before, const Config& now);
// UsageError when a resumed run's configuration differs in such a key; says which.
void require_same_training(const Config& now, const std::string& saved_yaml);
// Collective. UsageError on a rank whose configuration is not rank 0's: ranks would wait for each other in different
// places. What belongs to a host may differ: data.root, data.workers, backend.threads, backend.isa.
void require_same_on_ranks(const Config&, Transport&);

}  // namespace octet
