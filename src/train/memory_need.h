// How much memory a training takes.
#pragma once
#include <string>

#include "src/config/config.h"

namespace octet {

// From now on the operating system gets back at once what this process frees in large pieces. Otherwise the allocator
// keeps some of it, 3 to 20 MB in measurements, and saves a little time.
void return_freed_memory();

// What a rank takes whatever its network is, in bytes.
struct HostMemory {
  int64_t program = 0;   // with its libraries, and what its threads and kernels will need
  int64_t data = 0;      // lists of files and objects, and the pixels of data sets that are held in memory
  int64_t decoding = 0;  // photographs, one for each worker
  int64_t classes = 0;   // of the data set, by the way
  int threads = 1;
  std::string absent = {};  // why there is no data set to look at; empty: there is one
};
// Opens the data sets for a moment and reads the headers of some photographs. threads: of this rank.
HostMemory host_memory(const Config&, int threads);

// Of one rank, in bytes.
struct MemoryNeed {
  HostMemory host;
  int64_t arena = 0, parameters = 0;
  int64_t images = 0;      // read ahead
  int64_t checkpoint = 0;  // the copies from which rank 0 writes one
  int64_t exchange = 0;    // of several ranks: what is sent and what has come
  int64_t real = 0;        // of policies that convolve real numbers: buffers
  int64_t total() const {
    return host.program + host.data + host.decoding + arena + parameters + images + checkpoint + exchange + real;
  }
  // "120.3 MB: program 14.0, data set 0.1 ..."
  std::string text() const;
};
// UsageError: the configuration has no plan.
MemoryNeed memory_needed(const Config&, int64_t ranks, const HostMemory&);

}  // namespace octet
