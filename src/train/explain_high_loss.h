// A note on the first tests of a short training.
#pragma once
#include "src/graph/metrics.h"
#include "src/graph/parameters.h"

namespace octet {

// The first tests of a short training may be far off, which looks like a defect. Logs why. train, test: the figures of
// the last epoch and of its test.
void explain_high_loss(const Parameters&, int64_t steps, const Scalars& train, const Scalars& test);

}  // namespace octet
