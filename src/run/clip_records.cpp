#include "src/run/clip_records.h"

#include <vector>

#include "src/quant/distribution.h"

namespace octet {

void record_clips(const ClipCoordinator& clips, int64_t step, bool histograms, MetricsWriter& metrics) {
  std::vector<ClipRecord> records;
  const std::vector<ClipChoice> choices = clips.state().choices;
  for (int layer = 0; layer < clips.layers(); ++layer) {
    const ClipChoice& choice = choices[static_cast<size_t>(layer)];
    records.push_back(
        {clips.name(layer), choice.clip, choice.cosine_distance, choice.lr_scale, clips.saturated_share(layer)});
  }
  metrics.write_clips(step, records);
  for (int layer = 0; histograms && layer < clips.layers(); ++layer)
    metrics.write_histogram(step, clips.name(layer), -44, clips.octaves(layer),
                            kolmogorov_smirnov(clips.summed(layer)));
}

}  // namespace octet
