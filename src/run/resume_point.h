// The checkpoint from which a run is resumed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/run/checkpoint_store.h"

namespace octet {

class NoCheckpointError : public Error {  // there are some, but none can be used; has an exit code of its own
 public:
  using Error::Error;
};

struct TrainingData {
  std::string fingerprint, description;
};

// The newest checkpoint of the run. Others that are damaged, or that another run has made, are warnings. Found::file is
// empty if there are no checkpoints at all. UsageError: no checkpoint is of this run, or the newest one that is does
// not fit `now`, and the message names it and the key; or another arithmetic made it, see arithmetic.h, except at the
// step where the run is `finished`. More epochs are a warning, so that a finished run can be extended.
// NoCheckpointError: all are damaged.
CheckpointStore::Found resume_point(const CheckpointStore&, const std::string& run_directory, const Config& now,
                                    const TrainingData&, std::optional<int64_t> finished = {});

}  // namespace octet
