#include "src/train/rank.h"

#include <algorithm>
#include <string>

#include "src/data/augment/canvases.h"
#include "src/data/loader.h"

namespace octet {

// The numbers n for which n * unit divides `whole`, as "1, 2, 4".
static std::string divisors(int64_t whole, int64_t unit) {
  std::string all;
  for (int64_t n = 1; n <= whole / unit; ++n)
    if (whole % (n * unit) == 0) all += say(all.empty() ? "" : ", ", n);
  return all;
}

std::unique_ptr<Backend> make_backend(const Config& config, const Policy& policy, const Transport& transport,
                                      const JobShares& shares, int64_t images) {
  const RealConvolution real = policy.traits().real_convolution;
  const bool cuda = config.backend.device == "cuda";
  REQUIRE_USAGE(!cuda || !policy.traits().on_host, "set backend.device to cpu, or policy.name to unified_int8 or fp32",
                config.file, ": policy ", policy.traits().name,
                " computes on the processor and cannot train on `backend.device` cuda");
  if (cuda)
    return make_cuda_backend({.device = transport.local_rank(),
                              .share = config.backend.share_gpu,
                              .check_every_kernel = config.backend.check_kernels,
                              .record = config.backend.graph,
                              .real = real});
  return make_cpu_backend({.isa = config.backend.isa.empty() ? best_isa() : isa_from_name(config.backend.isa),
                           .threads = shares.threads(),
                           .real = real,
                           .memory = size_t(std::max<int64_t>(0, shares.memory() - images))});
}

int64_t bytes_read_ahead(const Config& config, int64_t samples) {
  int64_t largest = 0;
  for (const ImageShape& shape : input_shapes(config.data)) largest = std::max(largest, shape.height * shape.width);
  const int64_t bytes = pixel_channels + (config.augment.mixup > 0 ? 3 * int64_t{sizeof(float)} : 0);
  return 2 * read_ahead * samples * largest * bytes;
}

int64_t batch_of_plan(const Config& config, int64_t ranks) {
  const int64_t global = config.data.batch, parts = config.train.accumulate, group = config.train.norm_group;
  REQUIRE_USAGE(global % ranks == 0, "choose a data.batch that the number of ranks divides", config.file,
                ": data.batch ", global, " cannot be divided evenly among ", ranks, " ranks");
  const int64_t of_rank = global / ranks, batch = of_rank / parts;
  REQUIRE_USAGE(of_rank % parts == 0, say("set train.accumulate to one of ", divisors(of_rank, 1)), config.file,
                ": a rank's batch of ", of_rank, " images (data.batch ", global, " on ", ranks,
                " ranks) cannot be computed in ", parts, " equal parts");
  if (group == 0 || batch % group == 0) return batch;
  const std::string in_parts = parts > 1 ? say(" in ", parts, " parts") : "";
  const std::string counts = divisors(global, group * parts);
  throw UsageError(__FILE__, __LINE__,
                   say(config.file, ": a rank's batch of ", batch, " images (data.batch ", global, " on ", ranks,
                       " ranks", in_parts, ") is no multiple of train.norm_group ", group),
                   say("with ", ranks, " ranks set train.norm_group to one of ", divisors(batch, 1),
                       counts.empty() ? std::string() : say("; groups of ", group, " fit on ", counts, " ranks")));
}

int64_t fitting_ranks(const Config& config, int64_t most) {
  const int64_t unit = std::max<int64_t>(config.train.norm_group, 1) * config.train.accumulate;
  int64_t ranks = std::max<int64_t>(most, 1);
  while (ranks > 1 && config.data.batch % (ranks * unit) != 0) --ranks;
  return ranks;
}

}  // namespace octet
