// Which samples each batch of a pass over a data set holds.
#pragma once
#include <cstdint>
#include <vector>

#include "src/data/loader.h"

namespace octet {

struct BatchOrder {
  std::vector<uint32_t> samples;  // (batches, global batch): indices in the data set
  std::vector<bool> padding;      // of each: it only fills the last batch of a canvas; empty: no sample does
};

// Training: the epoch's permutation is divided by canvas, in order. A batch follows as soon as a canvas has enough
// samples. What is left of each canvas is dropped; in the next epoch it is other samples.
// balanced: the epoch is a balanced_order() instead of the permutation.
BatchOrder training_order(const Dataset&, int64_t global_batch, uint64_t seed, int64_t epoch, bool balanced = false);
// As many samples as the data set has, every class equally often, give or take one. The samples of a class come equally
// often too: all of them, in an order of their own, before one comes again. A function of (seed, epoch).
std::vector<uint32_t> balanced_order(const Dataset&, uint64_t seed, int64_t epoch);
// Evaluation: canvas after canvas, samples in order. The last batch of a canvas is padded with its first samples, so
// that ranges of activations over this batch mean the same as over the others.
BatchOrder evaluation_order(const Dataset&, int64_t global_batch);
// The number of batches in these orders.
int64_t batches_per_pass(const Dataset&, bool training, int64_t global_batch);

}  // namespace octet
