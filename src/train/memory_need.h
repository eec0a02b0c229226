// How much memory a training takes.
#pragma once
#include <string>

#include "src/config/config.h"

namespace octet {

// Of one rank, in bytes.
struct MemoryNeed {
  int64_t arena = 0, parameters = 0;
  int64_t images = 0;      // read ahead
  int64_t decoding = 0;    // whole photographs, one for each worker
  int64_t checkpoint = 0;  // the copies from which rank 0 writes one
  int64_t program = 0;     // with its libraries and the buffers of kernels
  int64_t total() const { return arena + parameters + images + decoding + checkpoint + program; }
  // "120.3 MB: program 14.0, arena 80.1 ..."
  std::string text() const;
};
// Data sets that are held in memory are not counted: those that octet draws. decoding: what bytes_of_decoding() says.
// UsageError: the configuration has no plan.
MemoryNeed memory_needed(const Config&, int64_t ranks, int64_t decoding);
// Of whole photographs, one for each worker: the largest of some files of a folder, whose headers are read.
int64_t bytes_of_decoding(const Config&);

}  // namespace octet
