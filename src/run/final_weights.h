// Trained weights for which the run directory has no room.
#pragma once
#include <map>
#include <span>
#include <string>

#include "kernels/base/durable_file.h"
#include "src/weights/safetensors.h"

namespace octet {

// Writes the weights to the temporary directory, the home directory, /tmp or /dev/shm, the first that takes them, and
// throws a FileError that says where they are. reason: why the run directory cannot hold them.
[[noreturn]] void keep_elsewhere(const std::string& run_directory, std::span<const NamedTensor>,
                                 const std::map<std::string, std::string>& metadata, const FileError& reason);

}  // namespace octet
