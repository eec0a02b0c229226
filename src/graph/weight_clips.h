// Clips of weights of few bits, where a range of the largest magnitude would round most of them to 0. The paper leaves
// their clip open: "a clipping value c in (0, max(|l|, |u|)]" (equation 1). Here it is the one with the smallest cosine
// distance (equation 7) between the weights and their codes, the criterion that the paper has for gradients.
#pragma once
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "src/graph/node.h"

namespace octet {

class WeightClips {
 public:
  // Lends a clip to every parameter whose encoding holds one without a value. The parameters outlive this.
  WeightClips(Backend&, std::vector<Param>&);
  // From the weights as they are now, the same on every rank that has the same weights. Overwrites their codes. Waits.
  void choose();

 private:
  Backend& backend_;
  std::vector<const Param*> params_;
  std::unique_ptr<Buffer> clips_;       // (params)
  std::unique_ptr<Buffer> histograms_;  // (params, histogram_bins)
};

}  // namespace octet
