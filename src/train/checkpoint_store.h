// The checkpoints of a run: RUN/checkpoints/step-00001234.safetensors and the text file `latest`. Rank 0 alone uses it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/train/safetensors.h"

namespace octet {

class CheckpointStore {
 public:
  // Creates RUN/checkpoints and clears what an interrupted save left there. keep >= 1.
  CheckpointStore(const std::string& run_directory, int64_t keep);

  // Writes the checkpoint, then `latest`, then removes all but the newest `keep`. False when the disk refuses: `reason`
  // says why, and the older checkpoints are as they were.
  bool save(int64_t step, std::span<const NamedTensor> tensors, std::map<std::string, std::string> metadata,
            std::string& reason);

  struct Found {
    std::optional<SafetensorsFile> file;  // empty: there is no valid checkpoint
    std::string path;
    int64_t step = 0;
    std::vector<std::string> refused;  // why each newer one was not taken
  };
  // The checkpoint that `latest` names, or else the newest other one whose every byte is as it was saved.
  Found newest_valid() const;

 private:
  std::map<int64_t, std::string> saved() const;  // step -> file name
  void prune(int64_t newest) const;

  std::string directory_;
  int64_t keep_;
};

}  // namespace octet
