// What a run writes about itself while it trains. Rank 0 alone uses it.
#pragma once
#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "src/quant/distribution.h"
#include "src/train/tensorboard.h"

namespace octet {

struct ClipRecord {
  std::string layer;
  double clip = 0;       // the clipping value
  double d_c = 0;        // its cosine distance
  double lr_scale = 1;   // phi(d_c)
  double saturated = 0;  // share of the step's elements beyond the clip that it had, before this choice
};

// Appends to RUN/metrics.jsonl, RUN/clips.jsonl and RUN/events.out.tfevents.octet; each line is flushed. A disk that
// refuses is a warning, once: training goes on. Steps are counted from 1.
class MetricsWriter {
 public:
  // Keeps the records of steps <= resumed_step (the steps of the checkpoint) and drops the others; a new run: -1.
  // FileError: the files cannot be written.
  MetricsWriter(const std::string& run_directory, int64_t resumed_step);

  // Whether metrics.jsonl holds a record of that step and kind.
  bool holds(int64_t step, const std::string& kind) const;
  // {"step": 50, "kind": "train", "loss": 1.5, ...}; in TensorBoard "train/loss". What is not finite is null in JSON.
  void write(int64_t step, const std::string& kind, std::span<const Scalar> scalars);
  void write_clips(int64_t step, std::span<const ClipRecord> clips);
  // counts: of |g| by octaves from 2^first_octave. To RUN/histograms.jsonl.
  void write_histogram(int64_t step, const std::string& layer, int first_octave, std::span<const int64_t> counts,
                       const KolmogorovSmirnov&);

 private:
  void append(std::ofstream& stream, const std::string& line);
  void warn_once();

  std::string directory_;
  std::ofstream metrics_, clips_, histograms_;
  EventFile events_;
  bool warned_ = false;
};

}  // namespace octet
