// Writes what must not be lost.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>

#include "comm/heart.h"
#include "kernels/base/durable_file.h"
#include "src/weights/safetensors.h"

namespace octet {

// Calls write() again and again while it throws a FileError, for example because the disk is full, for up to `patience`
// seconds; then throws the last error. Warns once, tells the heart, and gives up earlier if gives_up() says so.
void write_patiently(const std::function<void()>& write, double patience, const std::function<bool()>& gives_up,
                     Heart&);

// Writes trained weights, for which the run directory has no room, to the temporary directory, the home directory, /tmp
// or /dev/shm, the first that takes them, and throws a FileError that says where they are. reason: why the run
// directory cannot hold them.
[[noreturn]] void keep_elsewhere(const std::string& run_directory, std::span<const NamedTensor>,
                                 const std::map<std::string, std::string>& metadata, const FileError& reason);

}  // namespace octet
