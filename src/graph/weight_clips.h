// Clips of weights that have fewer than 8 bits. If the largest magnitude were the range, most of these weights would be
// rounded to 0. The paper does not say how to choose the clip: "a clipping value c in (0, max(|l|, |u|)]" (equation 1).
// octet takes the clip with the smallest cosine distance (equation 7) between weights and codes. The paper uses this
// criterion for gradients.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/parameters.h"

namespace octet {

class WeightClips {
 public:
  // Gives a clip to every parameter whose encoding has Range::held and no clip yet. The parameters must outlive this
  // object.
  WeightClips(Backend&, std::vector<Param>&);
  // Chooses the clips from the current weights. Ranks with equal weights choose equal clips. Overwrites the codes.
  // Waits for the device.
  void choose();

 private:
  Backend& backend_;
  std::vector<const Param*> params_;
  std::unique_ptr<Buffer> clips_;       // (params)
  std::unique_ptr<Buffer> histograms_;  // (params, histogram_bins)
};

}  // namespace octet
