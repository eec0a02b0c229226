// Finds what is deleted from the run directory in mid-run, such as the whole directory, and makes it again.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "src/config/config.h"
#include "src/train/best_weights.h"
#include "src/train/metrics.h"
#include "src/train/rank_watch.h"
#include "src/train/run_directory.h"

namespace octet {

// Rank 0's. The folder of checkpoints is not looked at: CheckpointStore makes it again.
class DeletionWatch {
 public:
  DeletionWatch(const Config& config, RankWatch& ranks) : config_(config), ranks_(ranks) {}
  // Called before each write to the directory. If something was deleted, warns once and replaces `metrics` and `best`
  // by new ones, which hold what is still there. step: the last one done. What cannot be made is tried again at the
  // next call. InUseError: the directory was deleted, and another training has begun in a new one.
  void look(RunDirectory&, std::unique_ptr<MetricsWriter>& metrics, std::optional<BestWeights>& best, int64_t step);

 private:
  void make_again(RunDirectory&, std::unique_ptr<MetricsWriter>&, std::optional<BestWeights>&, int64_t step);

  const Config& config_;
  RankWatch& ranks_;
  bool told_ = false, failed_ = false;  // of the present loss
};

}  // namespace octet
