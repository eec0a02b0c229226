// The learning rate as a function of the step.
#pragma once
#include <cstdint>

#include "src/config/config.h"

namespace octet {

// Linear warm-up from 0 over warmup_epochs, then the configured schedule. Cosine would reach 0 one step after the last
// step. step counts from 0; steps_per_epoch > 0.
double learning_rate(const Config::Train&, int64_t step, int64_t steps_per_epoch);

}  // namespace octet
