// The figures of an epoch's training steps, added up. A checkpoint within an epoch holds them, so that the means of a
// resumed run are those of an uninterrupted one.
#pragma once
#include <cstdint>
#include <string>

#include "src/run/metrics.h"
#include "src/train/training_step.h"

namespace octet {

class EpochSums {
 public:
  // seconds: that the step took. A skipped step counts as a step and is in no mean.
  void add(const StepReport&, double seconds);
  // The means so far, of `epoch`.
  EpochRecord record(int64_t epoch) const;

  std::string text() const;
  // Of what text() returned.
  static EpochSums from_text(const std::string&);

 private:
  int64_t steps_ = 0, counted_ = 0;  // counted: not skipped
  double seconds_ = 0;
  Metrics sums_;  // over the counted steps
};

}  // namespace octet
