#include "src/train/rank.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

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
  const int64_t batch = config.data.batch / ranks, group = config.train.norm_group;
  if (group == 0 || batch % group == 0) return batch;
  std::string groups, counts;
  for (int64_t n = 1; n <= batch; ++n)
    if (batch % n == 0) groups += say(groups.empty() ? "" : ", ", n);
  for (int64_t n = 1; n <= config.data.batch / group; ++n)
    if (config.data.batch % (n * group) == 0) counts += say(counts.empty() ? "" : ", ", n);
  throw UsageError(__FILE__, __LINE__,
                   say(config.file, ": a rank's batch of ", batch, " images (data.batch ", config.data.batch, " on ", ranks,
                       " ranks) is no multiple of train.norm_group ", group),
                   say("with ", ranks, " ranks set train.norm_group to one of ", groups,
                       counts.empty() ? std::string() : say("; groups of ", group, " fit on ", counts, " ranks")));
}

int64_t bytes_in_proc(const std::string& file, const std::string& name) {
  std::ifstream figures(file);
  int64_t kibibytes = 0;
  for (std::string word; kibibytes == 0 && figures >> word;)
    if (word == name + ":") figures >> kibibytes;
  REQUIRE(kibibytes > 0, "mount /proc", file, " has no ", name);
  return 1024 * kibibytes;
}

}  // namespace octet
