#include "src/train/memory_need.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "src/config/quiet.h"
#include "src/data/augment/canvases.h"
#include "src/data/loader.h"
#include "src/train/dry_plan.h"
#include "src/train/host_limits.h"
#include "src/train/rank.h"
#include "src/weights/pixel_normalization.h"

namespace octet {
namespace {

// Measured: pages of the program that the first step brings in, and of a thread its stack, its buffers in kernels and
// what the allocator keeps for it.
constexpr int64_t program_grows = 15'000'000, thread_takes = 1'000'000, worker_takes = 1'000'000;

// Measured, as shares of the arena: what convolutions of real numbers take beside it.
constexpr double real_share = 0.5, real_share_of_thread = 0.06;

int64_t resident() { return bytes_in_proc("/proc/self/status", "VmRSS"); }

// The largest of some images that are spread over the data set.
int64_t bytes_of_reading(const Dataset& data, bool training) {
  constexpr int64_t most = 64;  // of some formats the whole file is read
  const int64_t count = std::min(most, data.size());
  int64_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, data.bytes_to_read(i * data.size() / count, training));
  return largest;
}

int64_t bytes_of_gradients(const Parameters& parameters) {
  int64_t numbers = 0;
  for (const Param& param : parameters.trained()) numbers += param.shape.elements();
  return numbers * int64_t{sizeof(float)};
}

// A tensor is copied twice on its way: from the device's layout to PyTorch's.
int64_t bytes_of_checkpoint(const Config& config, const Parameters& parameters) {
  int64_t numbers = 0, largest = 0;
  for (const Param& param : parameters.all()) {
    const int64_t copies = param.frozen ? 1 : 2 + (config.train.optimizer == "adamw") + (config.train.ema > 0);
    numbers += copies * param.shape.elements();
    largest = std::max(largest, param.shape.elements());
  }
  return (numbers + 2 * largest) * int64_t{sizeof(float)};
}

}  // namespace

void return_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 17);
#endif
}

HostMemory host_memory(const Config& config, int threads) {
  HostMemory host{.threads = threads};
  const int64_t before = resident();
  host.program = before + program_grows + threads * thread_takes + config.data.workers * worker_takes;
  try {
    const Datasets data = quietly([&] { return open_datasets(config); });
    host.data = std::max<int64_t>(0, resident() - before);
    // The next epoch is read ahead while the network is evaluated.
    host.decoding = config.data.workers * (bytes_of_reading(*data.train, true) + bytes_of_reading(*data.test, false));
    host.classes = data.train->classes();
  } catch (const UsageError& error) {  // a plan may be made before the images are there
    host.absent = error.what();
  }
  return host;
}

std::string MemoryNeed::text() const {
  const auto megabytes = [](int64_t bytes) { return double(bytes) / 1e6; };
  return fmt::format(
      "{:.1f} MB: program {:.1f}, data set {:.1f}, images {:.1f}, weights with gradients and momentum {:.1f}, arena "
      "{:.1f}, a checkpoint while it is written {:.1f}{}{}",
      megabytes(total()), megabytes(host.program), megabytes(host.data), megabytes(images + host.decoding),
      megabytes(parameters), megabytes(arena), megabytes(checkpoint),
      real > 0 ? fmt::format(", convolutions of real numbers {:.1f}", megabytes(real)) : "",
      exchange > 0 ? fmt::format(", exchange {:.1f}", megabytes(exchange)) : "");
}

MemoryNeed memory_needed(const Config& config, int64_t ranks, const HostMemory& host) {
  MemoryNeed need{host};
  PlanOptions options{.storage = storage_of(config), .norm_group = config.train.norm_group, .training = true};
  if (config.augment.mixup == 0) options.pixels = normalization_of(config.data).pixels();  // mixed samples are no bytes
  const int64_t batch = batch_of_plan(config, ranks), bucket = int64_t(config.comm.bucket_mb * (1 << 20));
  for (const ImageShape& shape : input_shapes(config.data)) {
    const DryPlan dry(config, shape.height, shape.width, batch, options);
    need.arena = std::max(need.arena, int64_t(dry.plan.arena_bytes()));
    need.parameters = int64_t(dry.parameters.bytes(true));
    need.checkpoint = bytes_of_checkpoint(config, dry.parameters);
    if (ranks > 1) need.exchange = 2 * std::min(bytes_of_gradients(dry.parameters), bucket);
    if (dry.policy->simulation() || !dry.policy->traits().quantizes)
      need.real = int64_t((real_share + real_share_of_thread * host.threads) * double(need.arena));
  }
  need.images = bytes_read_ahead(config, config.data.batch / ranks);
  return need;
}

}  // namespace octet
