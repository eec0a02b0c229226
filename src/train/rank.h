// The backend, the threads and the share of the batch of one rank, according to the configuration.
#pragma once
#include <memory>
#include <string>

#include "comm/transport.h"
#include "kernels/backend.h"
#include "src/config/config.h"
#include "src/quant/policy.h"

namespace octet {

// The backend that the configuration selects.
std::unique_ptr<Backend> make_backend(const Config&, const Policy&, const Transport&);
// backend.threads; 0 means this rank's share of the allowed cores.
int threads_of_rank(const Config&, const Transport&);
// A figure that Linux gives in kB, as bytes: bytes_in_proc("/proc/meminfo", "MemAvailable"). Error: it is not there.
int64_t bytes_in_proc(const std::string& file, const std::string& name);
int allowed_cores();  // the number of cores in this process's affinity mask
// Samples that a rank computes at once: its share of data.batch, or one of the train.accumulate parts of that.
// UsageError: ranks, parts and norm groups do not divide the batch.
int64_t batch_of_plan(const Config&, int64_t ranks);
// The largest number of ranks, at most `most`, for which batch_of_plan() succeeds; 1 if there is none.
int64_t fitting_ranks(const Config&, int64_t most);

}  // namespace octet
