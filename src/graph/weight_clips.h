// Clips of weights of fewer than 8 bits, where a range of the largest magnitude would round most weights to 0. The
// paper leaves their clip open: "a clipping value c in (0, max(|l|, |u|)]" (equation 1). Here it is the clip with the
// smallest cosine distance (equation 7) between the weights and their codes, the paper's criterion for gradients.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/parameters.h"

namespace octet {

class WeightClips {
 public:
  // Gives a clip to every parameter whose encoding has Range::held without a value. The parameters outlive this.
  WeightClips(Backend&, std::vector<Param>&);
  // Chooses from the weights as they are now; ranks with the same weights choose the same. Overwrites the codes. Waits
  // for the device.
  void choose();

 private:
  Backend& backend_;
  std::vector<const Param*> params_;
  std::unique_ptr<Buffer> clips_;       // (params)
  std::unique_ptr<Buffer> histograms_;  // (params, histogram_bins)
};

}  // namespace octet
