// What the configuration gives one rank: its backend, its threads, its share of the batch.
#pragma once
#include <memory>

#include "comm/transport.h"
#include "kernels/backend.h"
#include "src/config/config.h"
#include "src/quant/policy.h"

namespace octet {

// The backend the configuration asks for.
std::unique_ptr<Backend> make_backend(const Config&, const Policy&, const Transport&);
// backend.threads; 0 means this rank's share of the allowed cores.
int threads_of_rank(const Config&, const Transport&);
int allowed_cores();  // of this process's affinity mask
// UsageError: a data.batch that the number of ranks does not divide.
int64_t batch_of_rank(const Config&, int64_t ranks);

}  // namespace octet
