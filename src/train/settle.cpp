#include "src/train/settle.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/config/quiet.h"
#include "src/data/augment/canvases.h"
#include "src/run/resume_point.h"
#include "src/run/run_directory.h"
#include "src/train/rank.h"
#include "src/train/trainer.h"

namespace octet {
namespace {

constexpr int64_t least_steps_of_epoch = 20;
constexpr double host_share = 0.5, device_share = 0.9;  // of the memory that is left

// Of one rank, without what the host takes whatever the batch is.
int64_t bytes_of_training(const Config& config, int64_t ranks) {
  const MemoryNeed need = memory_needed(config, ranks, {});
  return need.arena + need.parameters + (config.backend.device == "cpu" ? need.images + need.checkpoint : 0);
}

// What every rank may take.
int64_t memory_of_training(const Config& config, Transport& transport) {
  const JobShares shares(transport, int(config.backend.threads));
  int64_t own = int64_t(host_share * double(shares.memory()));
  if (config.backend.device != "cpu") {
    const auto policy = make_policy(config);
    own = int64_t(device_share * double(make_backend(config, *policy, transport, shares, 0)->free_bytes()));
  }
  if (config.train.memory_mb > 0) {
    require_memory_of_cpu(config);
    const HostMemory host = host_memory(config, shares.threads());
    own = std::min(own, config.train.memory_mb * 1'000'000 - host.program - host.data - host.decoding);
  }
  std::vector<int64_t> all(size_t(transport.size()));
  transport.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return *std::ranges::min_element(all);
}

}  // namespace

Config with_batch(const Config& given, Transport& transport) {
  if (given.data.batch != automatic) return given;
  Config config = given;
  const Datasets data = quietly([&] { return open_datasets(config); });
  const int64_t images = data.train->size();
  config.model.classes = data.train->classes();
  const int64_t memory = memory_of_training(config, transport), ranks = transport.size();
  const auto needed = [&](int64_t batch) {
    config.data.batch = batch;
    return bytes_of_training(config, ranks);
  };
  int64_t batch = ranks * config.train.accumulate * std::max<int64_t>(1, config.train.norm_group);
  // With a limit, with_memory() chooses storage, parts and stages so that more fits: 8 images a rank may try.
  const int64_t tried = given.train.memory_mb > 0 ? std::max(batch, 8 * ranks) : 0;
  const auto fits = [&](int64_t size) { return size <= tried || needed(size) <= memory; };
  REQUIRE_USAGE(fits(batch), "use smaller images, a smaller network or a host with more memory", given.file,
                ": data.batch: auto finds no batch: ", batch, " images take ", needed(batch) / 1'000'000,
                " MB on a rank, which may take ", memory / 1'000'000, " MB");
  while (2 * batch * least_steps_of_epoch <= images && fits(2 * batch)) batch *= 2;
  if (transport.rank() == 0 && needed(batch) > memory)
    spdlog::info("data.batch: auto is {}: it takes {} MB as the recipe is, and {} MB are left for it", batch,
                 needed(batch) / 1'000'000, std::max<int64_t>(0, memory) / 1'000'000);
  else if (transport.rank() == 0)
    spdlog::info("data.batch: auto is {}: it takes {} MB of the {} MB that a rank may take{}", batch,
                 needed(batch) / 1'000'000, memory / 1'000'000,
                 2 * batch * least_steps_of_epoch > images
                     ? say(", and more would leave fewer than ", least_steps_of_epoch, " steps in an epoch")
                     : std::string(", and twice as much does not fit"));
  config = given;
  config.data.batch = batch;
  return config;
}

double seconds_of_epoch(const Config& config, Transport& transport, Heart* heart) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t warm_up = 2, timed = 4;
  Trainer trainer(config, transport, true, heart);
  trainer.load_initial_weights();
  const Quiet quiet;
  trainer.start(0);
  for (int64_t step = 0; step < warm_up; ++step) trainer.step(step, false);
  const auto start = Clock::now();
  for (int64_t step = 0; step < timed; ++step) trainer.step(warm_up + step, false);
  const double of_step = std::chrono::duration<double>(Clock::now() - start).count() / double(timed);
  const double tests = double(trainer.datasets().test->size()) / 3 / double(config.train.eval_every_epochs);
  double seconds = of_step * (double(trainer.datasets().train->size()) + tests) / double(config.data.batch);
  transport.broadcast(std::as_writable_bytes(std::span(&seconds, 1)), 0);
  return seconds;
}

Config with_epochs(const Config& given, Transport& transport, Heart* heart) {
  if (given.train.minutes == 0) return given;
  Config config = given;
  const double of_epoch = quietly([&] { return seconds_of_epoch(config, transport, heart); });
  const double whole = 60 * config.train.minutes;
  const int64_t least = std::max<int64_t>(1, int64_t(std::floor(config.train.warmup_epochs)) + 1);
  const auto epochs = int64_t(whole / of_epoch);
  REQUIRE_USAGE(epochs >= least,
                fmt::format("set train.minutes to {:.1f} or more, or give train.epochs or train.steps in its place",
                            std::ceil(1.1 * double(least) * of_epoch / 6) / 10),
                config.file, ": train.minutes: ", config.train.minutes, " is too short: an epoch takes about ",
                text_of_time(of_epoch),
                least > 1 ? say(", and train.warmup_epochs: ", config.train.warmup_epochs, " needs ", least, " epochs")
                          : std::string(" here"));
  config.train.epochs = epochs;
  config.train.minutes = 0;
  if (transport.rank() == 0)
    spdlog::info("train.minutes: {} is {} epochs of about {}", given.train.minutes, epochs,
                 of_epoch < 10 ? fmt::format("{:.1f} s", of_epoch) : text_of_time(of_epoch));
  return config;
}

Config settled(const Config& given, Transport& transport, const std::string& run_directory, bool resume, Heart* heart) {
  std::optional<Config> began;  // as the run did; none: it has not begun
  if (resume && transport.rank() == 0) began = config_of_run(directory_to_resume(given, run_directory));
  int64_t before[] = {began ? began->data.batch : 0, began ? began->train.epochs : 0,
                      began ? began->train.memory_mb : 0};
  transport.broadcast(std::as_writable_bytes(std::span(before)), 0);
  if (before[0] == 0) return with_epochs(with_memory(with_batch(given, transport), transport), transport, heart);
  Config config = given;
  if (config.data.batch == automatic) config.data.batch = before[0];
  if (config.train.minutes > 0) config.train.epochs = before[1], config.train.minutes = 0;
  if (config.train.memory_mb > 0 || before[2] > 0)
    config = with_memory_as_begun(config, began ? *began : config, transport);
  return config;
}

std::string text_of_time(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace octet
