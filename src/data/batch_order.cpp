#include "src/data/batch_order.h"

namespace octet {

BatchOrder training_order(const Dataset& data, int64_t global_batch, uint64_t seed, int64_t epoch) {
  BatchOrder order;
  std::vector<std::vector<uint32_t>> waiting(data.canvases());
  for (const uint32_t sample : epoch_order(data.size(), seed, epoch)) {
    std::vector<uint32_t>& batch = waiting[data.canvas(sample)];
    batch.push_back(sample);
    if (static_cast<int64_t>(batch.size()) < global_batch) continue;
    order.samples.insert(order.samples.end(), batch.begin(), batch.end());
    batch.clear();
  }
  return order;
}

BatchOrder evaluation_order(const Dataset& data, int64_t global_batch) {
  std::vector<std::vector<uint32_t>> of_canvas(data.canvases());
  for (int64_t sample = 0; sample < data.size(); ++sample)
    of_canvas[data.canvas(sample)].push_back(static_cast<uint32_t>(sample));
  BatchOrder order;
  for (const std::vector<uint32_t>& samples : of_canvas) {
    const size_t batch = global_batch, padded = (samples.size() + batch - 1) / batch * batch;
    for (size_t i = 0; i < padded; ++i) {
      order.samples.push_back(samples[i % samples.size()]);
      order.padding.push_back(i >= samples.size());
    }
  }
  return order;
}

int64_t batches_per_pass(const Dataset& data, bool training, int64_t global_batch) {
  std::vector<int64_t> samples(data.canvases());
  for (int64_t sample = 0; sample < data.size(); ++sample) ++samples[data.canvas(sample)];
  int64_t batches = 0;
  for (const int64_t count : samples)
    batches += training ? count / global_batch : (count + global_batch - 1) / global_batch;
  return batches;
}

}  // namespace octet
