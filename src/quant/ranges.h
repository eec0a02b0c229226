// Holds the range of each activation from step to step, as "In-Hindsight Range Estimation for Quantized Training"
// (arXiv 2105.04246) does. All images on all ranks share a range, so an activation's codes do not depend on the rest of
// the batch. Training and evaluation read the same ranges.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "kernels/backend.h"

namespace octet {

// Returns the range of the next step: the largest magnitude of this step, or the range of this step less one percent if
// that is larger. 0 means that a range is not known yet. The result is positive.
float next_range(float range, float largest);

class ActivationRanges {
 public:
  ActivationRanges(Transport&, Backend&);
  int add_layer(const std::string& name);  // called while plans are built; returns the same index for the same name
  int layers() const { return int(names_.size()); }
  // held: (layers) floats in the backend's memory, which belong to the parameters. 0: not known yet.
  void bind(float* held);
  void read();  // after the held values were changed from outside, for example by a checkpoint

  float range(int layer) const { return ranges_[size_t(layer)]; }
  bool settled() const;  // every range is known
  // Calls pass(encoding, probe) with the layer's range in place of `encoding.held`. elements: of the tensor that the
  // pass writes. If the range is unknown in training, the pass runs twice: first to measure the largest magnitude over
  // all ranks, which becomes the range, then to encode. Only then is this call collective. UsageError: an unknown range
  // in evaluation.
  void encode(int layer, Encoding encoding, int64_t elements, bool training,
              const std::function<void(const Encoding&, Probe)>& pass);

  void begin();     // starts a step: clears what was measured
  void postpone();  // the step was skipped: ranges that it measured are unknown again
  // Writes {saturated, elements} of this step for each layer, to be summed over the ranks. into: (2 * layers()).
  void counts(std::span<double> into) const;
  // Collective, after a step that was not skipped. Moves every range to the next step's. summed: what counts() wrote,
  // summed over the ranks.
  void update(std::span<const double> summed);
  double saturated_share() const { return saturated_share_; }  // of all activations, in the last step

 private:
  void hold();

  Transport& transport_;
  Backend& backend_;
  std::vector<std::string> names_;
  std::vector<float> ranges_;  // a copy of held_
  std::vector<double> elements_;
  std::vector<int> primed_;                      // layers whose range this step measured
  std::unique_ptr<Buffer> largest_, saturated_;  // (layers) f32 and u64: measured in this step
  float* held_ = nullptr;
  double saturated_share_ = 0;
};

}  // namespace octet
