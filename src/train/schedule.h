// The learning rate as a function of the step.
#pragma once
#include <cstdint>

#include "src/config/config.h"

namespace octet {

// Step s of a warm-up of W steps (warmup_epochs) has the learning rate lr (s + 1) / W. After the warm-up the configured
// schedule begins. A cosine would reach 0 one step after the last step. step counts from 0; steps_per_epoch > 0.
double learning_rate(const Config::Train&, int64_t step, int64_t steps_per_epoch);

}  // namespace octet
