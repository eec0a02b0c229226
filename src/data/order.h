// In which order an epoch visits the samples.
#pragma once
#include <vector>

#include "src/data/draws.h"

namespace octet {

// A permutation of 0 .. size - 1 that is a function of (seed, epoch): Fisher and Yates' shuffle.
std::vector<uint32_t> epoch_order(int64_t size, uint64_t seed, int64_t epoch);

}  // namespace octet
