// Holds the range of each activation from step to step, as "In-Hindsight Range Estimation for Quantized Training"
// (arXiv 2105.04246) does. All images on all ranks share a range, so an activation's codes do not depend on the rest of
// the batch. Training and evaluation read the same ranges. A range follows a quantile of the magnitudes: one activation
// in 32768 lies beyond it. The largest magnitude would leave fewer codes for all the others.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "kernels/backend.h"

namespace octet {

// Returns the range of the next step, which is positive. It falls by one percent if nothing saturated in this step,
// stays if one of 32768 elements did, and grows with the share of those that did, at most to its double.
float next_range(float range, double saturated_share);

class ActivationRanges {
 public:
  // rank_0_measures: a range that is not known is measured on rank 0 alone, and not over all ranks.
  ActivationRanges(Transport&, Backend&, bool rank_0_measures = false);
  int add_layer(const std::string& name);  // called while plans are built; returns the same index for the same name
  int layers() const { return int(names_.size()); }
  // held: (layers) floats in the backend's memory, which belong to the parameters. 0: not known yet.
  void bind(float* held);
  void read();  // after the held values were changed from outside, for example by a checkpoint

  float range(int layer) const { return ranges_[size_t(layer)]; }
  bool settled() const;  // every range is known
  // Calls pass(encoding, probe) with the layer's range in place of `encoding.held`. If the range is unknown and
  // `measures` is true, the pass runs twice: first to measure the largest magnitude over the ranks, which gives the
  // range, then to encode. Only then is this call collective. UsageError: the range is unknown, and nothing measures.
  void encode(int layer, Encoding encoding, bool measures, const std::function<void(const Encoding&, Probe)>& pass);

  void begin();     // starts a step: forgets what the last one measured and counted
  void restart();   // forgets what this step has counted so far
  void postpone();  // the step was skipped: ranges that it measured are unknown again
  // Writes {saturated, elements} of this step for each layer, to be summed over the ranks. elements: of the step's
  // plan, by layer; layers after the last one have none. The plan ran `times` times. into: (2 * layers()).
  void counts(std::span<const int64_t> elements, std::span<double> into, int times = 1) const;
  // After a step that was not skipped. Moves every range to the next step's. summed: what counts() wrote, summed over
  // the ranks.
  void update(std::span<const double> summed);
  double saturated_share() const { return saturated_share_; }  // of all activations, in the last step

 private:
  void hold();

  Transport& transport_;
  Backend& backend_;
  const bool rank_0_measures_;
  std::vector<std::string> names_;
  std::vector<float> ranges_;          // a copy of held_
  std::vector<int> primed_;            // layers whose range this step measured
  std::unique_ptr<Buffer> largest_;    // f32: the magnitude that is being measured
  std::unique_ptr<Buffer> saturated_;  // (layers) u64: in this step
  float* held_ = nullptr;
  double saturated_share_ = 0;
};

}  // namespace octet
