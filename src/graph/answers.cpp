#include "src/graph/answers.h"

namespace octet {
namespace {

template <class Value>
void append(std::vector<Value>& all, const std::vector<Value>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Row i of `rows` equal ones.
std::vector<float> row(const std::vector<float>& values, size_t i, size_t rows) {
  const auto size = static_cast<ptrdiff_t>(values.size() / rows), first = static_cast<ptrdiff_t>(i) * size;
  return {values.begin() + first, values.begin() + first + size};
}

}  // namespace

void add(Answers& all, const Answers& more) {
  add(all.metrics, more.metrics);
  append(all.detections, more.detections);
  append(all.logits, more.logits);
  append(all.probabilities, more.probabilities);
}

std::vector<Prediction> divide(const Answers& all, const Batch& batch) {
  const size_t count = batch.samples.size();
  std::vector<Prediction> predictions;
  auto found = all.detections.begin();
  for (size_t i = 0; i < count; ++i) {
    if (batch.samples[i] < 0) continue;
    Prediction& of = predictions.emplace_back(Prediction{.sample = batch.samples[i], .answers = {}});
    for (; found != all.detections.end() && found->image == of.sample; ++found) of.answers.detections.push_back(*found);
    of.answers.logits = row(all.logits, i, count);
    of.answers.probabilities = row(all.probabilities, i, count);
  }
  return predictions;
}

}  // namespace octet
