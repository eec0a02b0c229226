#include "src/train/rank.h"

#include <sched.h>

#include <algorithm>

namespace octet {

int allowed_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int threads_of_rank(const Config& config, const Transport& transport) {
  return config.backend.threads > 0 ? int(config.backend.threads)
                                    : std::max(1, allowed_cores() / transport.local_size());
}

std::unique_ptr<Backend> make_backend(const Config& config, const Policy& policy, const Transport& transport) {
  const RealConvolution real = policy.traits().real_convolution;
  if (config.backend.device == "cuda")
    return make_cuda_backend({.device = transport.local_rank(),
                              .check_every_kernel = config.backend.check_kernels,
                              .record = config.backend.graph,
                              .real = real});
  return make_cpu_backend({.isa = config.backend.isa.empty() ? best_isa() : isa_from_name(config.backend.isa),
                           .threads = threads_of_rank(config, transport),
                           .real = real});
}

int64_t batch_of_rank(const Config& config, int64_t ranks) {
  REQUIRE_USAGE(config.data.batch % ranks == 0, "choose a data.batch that the number of ranks divides", config.file,
                ": data.batch ", config.data.batch, " cannot be divided evenly among ", ranks, " ranks");
  return config.data.batch / ranks;
}

}  // namespace octet
