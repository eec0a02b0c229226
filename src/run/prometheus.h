// The latest figures of a training in Prometheus' text format, for the textfile collector of its node exporter.
#pragma once
#include <string>
#include <vector>

#include "comm/heartbeat.h"
#include "src/graph/metrics.h"

namespace octet {

struct LatestFigures {
  std::string run;               // directory
  int64_t step = 0, steps = 0;   // completed; in all
  double images_per_second = 0;  // over all ranks
  double saved = 0;              // when the last checkpoint was written, in seconds since 1970; 0: none yet
  Scalars scalars;               // of the last step that was recorded: loss ...
  std::vector<Heartbeat> ranks;  // that are seen
};

std::string prometheus_text(const LatestFigures&);
// Whether there is no such file, or one that octet wrote for Prometheus. Anything else, and any link, is left as it is.
bool may_write_prometheus(const std::string& file);
// Replaces the file at once, so that a reader never sees half of it. False: it cannot be written, or must not be.
bool write_prometheus(const std::string& file, const LatestFigures&);

}  // namespace octet
