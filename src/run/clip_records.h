// What the run directory says about the clips of gradients.
#pragma once
#include <cstdint>

#include "src/quant/clip.h"
#include "src/run/metrics.h"

namespace octet {

// Writes the clip of each layer that was chosen at this step; histograms: also the distribution from which it was.
void record_clips(const ClipCoordinator&, int64_t step, bool histograms, MetricsWriter&);

}  // namespace octet
