// The weights of a run's best evaluation: RUN/best.safetensors. Rank 0 alone uses it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "src/graph/metrics.h"
#include "src/weights/safetensors.h"

namespace octet {

struct BestEvaluation {
  int64_t epoch = 0, step = 0;  // after which it ran
  Scalars figures;              // on the test set; the first one decides which evaluation is the best
};

// Whether its weights can be trained on: their test loss is finite and at most twice the loss of the first step, before
// which nothing was learnt. Without a loss its first figure must be above 0.
bool is_sound(const BestEvaluation&, double first_loss);

// The file holds its evaluation too, so that a resumed run knows what it has to exceed.
class BestWeights {
 public:
  // resumed: goes on with what the file holds; otherwise removes it. A file that cannot be used is a warning.
  BestWeights(const std::string& run_directory, bool resumed);

  const std::optional<BestEvaluation>& evaluation() const { return best_; }
  // Whether the first of the figures is greater than that of the best evaluation so far. Of equal ones the earlier
  // stays the best.
  bool exceeded_by(const Scalars& figures) const;
  // Replaces the file. FileError: it cannot be written, and the best evaluation stays what it was.
  void replace(const BestEvaluation&, std::span<const NamedTensor> weights,
               std::map<std::string, std::string> metadata);

 private:
  std::string path_;
  std::optional<BestEvaluation> best_;
};

// What to do where the training of a run has diverged. To resume it leads to the same end.
std::string way_back(const std::string& run_directory);

}  // namespace octet
