#include "src/data/batch_order.h"

#include <map>

#include "src/data/draws.h"

namespace octet {

std::vector<uint32_t> balanced_order(const Dataset& data, uint64_t seed, int64_t epoch) {
  std::map<int32_t, std::vector<uint32_t>> of_class;
  for (int64_t sample = 0; sample < data.size(); ++sample)
    of_class[data.label(sample)].push_back(static_cast<uint32_t>(sample));
  std::vector<uint32_t> chosen;  // class after class
  int64_t done = 0;
  const auto classes = static_cast<int64_t>(of_class.size());
  for (auto& [label, samples] : of_class) {
    const int64_t wanted = data.size() / classes + (done++ < data.size() % classes ? 1 : 0);
    Draws draws(seed, epoch, DrawStream::balance, label);
    for (int64_t i = 0; i < wanted; ++i) {
      const size_t place = static_cast<size_t>(i) % samples.size(), left = samples.size() - place;
      std::swap(samples[place], samples[place + draws.below(static_cast<uint32_t>(left))]);
      chosen.push_back(samples[place]);
    }
  }
  std::vector<uint32_t> order;
  for (const uint32_t place : epoch_order(data.size(), seed, epoch)) order.push_back(chosen[place]);
  return order;
}

BatchOrder training_order(const Dataset& data, int64_t global_batch, uint64_t seed, int64_t epoch, bool balanced) {
  BatchOrder order;
  std::vector<std::vector<uint32_t>> waiting(data.canvases());
  for (const uint32_t sample : balanced ? balanced_order(data, seed, epoch) : epoch_order(data.size(), seed, epoch)) {
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
