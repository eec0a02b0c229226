// The records that a run writes during training: files of JSON objects, one per line, and TensorBoard's event file.
// Only rank 0 writes them.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "src/quant/distribution.h"
#include "src/run/line_file.h"
#include "src/run/tensorboard.h"

namespace octet {

// The record of a line; null: the line is no JSON, since a crash may leave half a line. place: of the line, for
// messages. UsageError: the line has more than 1 MiB, or lists in lists, as octet's records have not.
nlohmann::json record_in(const std::string& line, const std::string& place);

// Calls take(record, line) for each line that is a JSON object with a `step`. Other lines are skipped, since a crash
// may leave half a line. Returns false if there is no file. UsageError: a field that `take` reads has another type, or
// see record_in(); the message gives file and line.
bool for_each_record(const std::string& path,
                     const std::function<void(const nlohmann::json& record, const std::string& line)>& take);

struct ClipRecord {
  std::string layer;
  double clip = 0;       // the clipping value
  double d_c = 0;        // the cosine distance at this clip
  double lr_scale = 1;   // phi(d_c)
  double saturated = 0;  // share of the step's elements beyond the previous clip
};

struct EpochRecord {
  int64_t epoch = 1;         // counted from 1
  int64_t steps = 0;         // fewer than an epoch's where train.steps ends the training within it
  double seconds = 0;        // of these steps
  Scalars means;             // over the steps that were not skipped; empty: all were
  double learning_rate = 0;  // of the last step
};

// Appends to RUN/metrics.jsonl, RUN/clips.jsonl and an event file, see EventFile. If a write fails, its record is left
// out, one warning is logged and training continues. Steps are counted from 1. Records of metrics.jsonl end with `time`
// (seconds since 1970) and `host`.
class MetricsWriter {
 public:
  // resumed_step: the step of the checkpoint, or -1 for a new run. Keeps the records of steps <= resumed_step and
  // removes the others. FileError: the files cannot be written.
  MetricsWriter(const std::string& run_directory, int64_t resumed_step);

  // For TensorBoard alone.
  void write_settings(const Config&);
  void write_picture(int64_t step, const std::string& tag, int width, int height, const std::string& png);

  // Whether metrics.jsonl holds a record of that step and kind.
  bool holds(int64_t step, const std::string& kind) const;
  // {"step": 50, "kind": "train", "loss": 1.5, ...}; in TensorBoard "train/loss". Non-finite values are null in JSON.
  void write(int64_t step, const std::string& kind, std::span<const Scalar> scalars);
  // {"step": 390, "kind": "epoch", "epoch": 1, "steps": 390, "seconds": 12.5, "loss": 1.5, ..., "learning_rate":
  // 0.1}; step: the epoch's last. TensorBoard has the means and the learning rate: "epoch/loss".
  void write_epoch(int64_t step, const EpochRecord&);
  void write_clips(int64_t step, std::span<const ClipRecord> clips);
  // Appends to RUN/histograms.jsonl. counts: the number of |g| in each power of two from 2^first_octave on.
  void write_histogram(int64_t step, const std::string& layer, int first_octave, std::span<const int64_t> counts,
                       const KolmogorovSmirnov&);
  // The path of a file that was deleted since it was opened; empty: there is none. What is written then is lost.
  std::string deleted_file() const;

 private:
  void write_events(int64_t step, const std::string& kind, std::span<const Scalar> scalars);
  void append(LineFile& file, const std::string& line);
  void warn_once();

  std::string directory_;
  LineFile metrics_, clips_, histograms_;
  EventFile events_;
  bool warned_ = false;
};

}  // namespace octet
