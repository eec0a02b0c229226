// The checkpoints of a run: RUN/checkpoints/step-00001234.safetensors and the text file `latest`. Rank 0 alone uses it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/weights/safetensors.h"

namespace octet {

class CheckpointStore {
 public:
  // Creates RUN/checkpoints and removes the remains of an interrupted save. keep >= 1: the number of checkpoints to
  // keep.
  CheckpointStore(const std::string& run_directory, int64_t keep);

  // Writes the checkpoint, then `latest`, then removes all but the newest `keep`. Makes the folder again if it was
  // deleted. FileError: the checkpoint cannot be written, and the older ones are unchanged.
  void save(int64_t step, std::span<const NamedTensor> tensors, std::map<std::string, std::string> metadata);

  struct Newest {
    int64_t step = 0;
    double written = 0;  // seconds since 1970
  };
  // The newest checkpoint of a run, which may be damaged; empty: there is none.
  static std::optional<Newest> newest_of(const std::string& run_directory);

  struct Found {
    std::optional<SafetensorsFile> file;  // empty: no valid checkpoint
    std::string path;
    int64_t step = 0;
    std::vector<std::string> refused;  // the reason for each damaged checkpoint
  };
  // Finds the checkpoint that `latest` names, or else the newest other one. A checkpoint whose SHA-256 differs is
  // rejected. takes: whether to take one that is sound; else the search goes on.
  using Choice = std::function<bool(const SafetensorsFile&, const std::string& path)>;
  Found newest_valid(const Choice& takes = {}) const;

 private:
  void prune(int64_t newest) const;

  std::string directory_;
  int64_t keep_;
};

}  // namespace octet
