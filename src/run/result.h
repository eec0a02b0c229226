// The result of a finished run: RUN/result.json.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/metrics.h"
#include "src/run/best_weights.h"

namespace octet {

struct Result {
  Scalars metrics;                     // on the test set; the first one is used to compare runs
  Scalars by_class;                    // the first figure of each class with objects; empty: the data have none
  std::optional<BestEvaluation> best;  // whose weights best.safetensors holds
  int64_t epochs = 0, steps = 0;       // that were trained; train.steps may end the last epoch early
  int64_t ranks = 1;
  std::string rank_history;  // "1 from step 0, 4 from step 500": the run was resumed on 4 ranks
  int64_t images = 0;        // images of all steps, over all ranks
  int64_t images_per_epoch = 0;
  std::string backend, isa, policy;
  int64_t threads = 0;  // of each rank
  // Of steps, evaluations and files, without what was computed after a checkpoint and lost. Empty: not known.
  std::optional<double> wall_seconds;
  // Of the process that ended the run. Empty: it ran no step, since the run was finished before.
  std::optional<double> images_per_second;
  std::optional<uint64_t> wire_bytes_per_step;  // sent by one rank
  uint64_t arena_bytes = 0;
  uint64_t peak_memory_bytes = 0;  // of rank 0's process, resident
  std::string weights_sha256;
  std::string data;    // fingerprint of the data sets
  std::string commit;  // src/version.h; "a, then b" if another build resumed the run
};

// Reads RUN/result.json; empty if there is none. Missing fields keep their defaults. UsageError: the file is damaged,
// a field has another type, or a count is negative.
std::optional<Result> read_result(const std::string& run_directory);
// The content of such a file, which `file` names in messages.
Result parse_result(const std::string& text, const std::string& file);
// Replaces the whole file; empty fields are left out. FileError: it cannot be written.
void write_result(const std::string& run_directory, const Result& result);

}  // namespace octet
