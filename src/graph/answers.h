// What a network says of samples.
#pragma once
#include <cstdint>
#include <vector>

#include "src/graph/metrics.h"
#include "src/objects.h"
#include "src/sample.h"

namespace octet {

struct Answers {
  Metrics metrics = {};                                // sums over the samples
  std::vector<Detection> detections = {};              // of a detector, in the order of the samples
  std::vector<float> logits = {}, probabilities = {};  // of a classifier, (samples, classes)
};
// all += more, which are of the samples behind those of `all`.
void add(Answers& all, const Answers& more);

// The answers to one sample.
struct Prediction {
  int64_t sample = 0;  // index in the data set
  Answers answers;     // without metrics
};
// Divides the answers to a batch. Samples that are not there are left out.
std::vector<Prediction> divide(const Answers&, const Batch&);

}  // namespace octet
