// The records that a run wrote while it trained: metrics.jsonl, clips.jsonl, histograms.jsonl.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/report/charts/svg.h"

namespace octet {

struct RunRecords {
  int64_t steps = 0;                        // of the last record
  std::optional<double> steps_per_epoch;    // empty: no epoch has ended
  std::map<int64_t, double> epoch_seconds;  // by epoch, of training steps
  double train_seconds() const;
  double begun = 0, ended = 0;     // times of the first and the last record, in seconds since 1970; 0: not known
  std::vector<std::string> hosts;  // that wrote records, in their order
  // Values over steps, by "train/loss", "epoch/loss", "test/top1" ...
  std::map<std::string, Series> metrics;
  struct Layer {
    std::string name;
    Series clip, d_c, lr_scale, saturated;
  };
  std::vector<Layer> layers;  // from the input to the output, which is the order of the first records
  struct Histogram {
    double step = 0;
    int first_octave = 0;        // counts[0] holds magnitudes below 2^(first_octave + 1)
    std::vector<double> counts;  // of one octave each
    double gaussian = 0, laplace = 0, student = 0, critical = 0;  // Kolmogorov-Smirnov statistics of the best fits
  };
  std::map<std::string, std::vector<Histogram>> histograms;  // by layer
};

// UsageError: the directory holds no metrics. Error with file and line: a record has a field of another type.
RunRecords read_records(const std::string& run_directory);

}  // namespace octet
