// What a run wrote about itself, read back: metrics.jsonl, clips.jsonl, histograms.jsonl.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "src/report/svg.h"

namespace octet {

struct RunRecords {
  // By "train/loss", "test/top1" ...: values over steps.
  std::map<std::string, Series> metrics;
  struct Layer {
    std::string name;
    Series clip, d_c, lr_scale, saturated;
  };
  std::vector<Layer> layers;  // in the order of the first record: from the input on
  struct Histogram {
    double step = 0;
    int first_octave = 0;        // counts[0] holds magnitudes below 2^(first_octave + 1)
    std::vector<double> counts;  // of one octave each
    double gaussian = 0, laplace = 0, student = 0, critical = 0;  // Kolmogorov-Smirnov statistics of the best fits
  };
  std::map<std::string, std::vector<Histogram>> histograms;  // by layer
};

// Lines that are no records (a crash may leave half a line) are passed over. Error: the directory holds no metrics.
RunRecords read_records(const std::string& run_directory);

}  // namespace octet
