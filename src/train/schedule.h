// Where a training is, and its learning rate there.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/updates.h"
#include "src/config/config.h"

namespace octet {

struct StepCount {
  int64_t of_epoch, total, done = 0;
  int64_t epochs_per_test;

  StepCount(const Config::Train& train, int64_t steps_of_epoch)
      : of_epoch(steps_of_epoch),
        total(train.steps > 0 ? std::min(train.steps, train.epochs * of_epoch) : train.epochs * of_epoch),
        epochs_per_test(train.eval_every_epochs) {}

  // Whether the last step that is done ended an epoch; the last epoch may be incomplete.
  bool ends_epoch() const { return done % of_epoch == 0 || done == total; }
  bool ends() const { return done == total; }
  bool tests() const { return ends() || (ends_epoch() && epoch() % epochs_per_test == 0); }  // an evaluation is due
  // The number of epochs that so many steps take.
  int64_t epochs_of(int64_t steps) const { return (steps + of_epoch - 1) / of_epoch; }
  int64_t epoch() const { return epochs_of(done); }
  int64_t epochs() const { return epochs_of(total); }
};

// Step s of a warm-up of W steps (warmup_epochs) has the learning rate lr (s + 1) / W. After the warm-up the configured
// schedule begins. A cosine would reach 0 one step after the last step. step counts from 0; steps_per_epoch > 0.
double learning_rate(const Config::Train&, int64_t step, int64_t steps_per_epoch);

// step counts from 0; steps that were skipped count too. Of another optimizer than AdamW: 1.
AdamWCorrections adamw_corrections(const Config::Train&, int64_t step);

}  // namespace octet
