// `octet plan` and `octet bench`: what a configuration needs, and how fast its steps are here.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "src/data/loader.h"
#include "src/train/commands.h"
#include "src/train/dry_plan.h"
#include "src/train/rank.h"
#include "src/train/trainer.h"
#include "src/version.h"

namespace octet {
namespace {

// The most memory this process has held so far, as Linux counts it (VmHWM): code, libraries and all.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  int64_t kibibytes = 0;
  for (std::string word; kibibytes == 0 && status >> word;)
    if (word == "VmHWM:") status >> kibibytes;
  REQUIRE(kibibytes > 0, "mount /proc", "/proc/self/status has no VmHWM, the peak of resident memory");
  return 1024 * kibibytes;
}

// What was added since `before`, whose kernels come first and in the same order.
std::vector<KernelTime> slowest_first(std::vector<KernelTime> times, const std::vector<KernelTime>& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    times[i].calls -= before[i].calls;
    times[i].seconds -= before[i].seconds;
  }
  std::erase_if(times, [](const KernelTime& time) { return time.calls == 0; });
  std::ranges::stable_sort(times, std::greater{}, &KernelTime::seconds);
  return times;
}

}  // namespace

int run_plan(const Config& config, Transport& transport) {
  const int64_t batch = batch_of_rank(config, transport.size()), size = image_side(config.data);
  const auto plan_with = [&](DType storage, bool training) {
    return DryPlan(config, size, size, batch, {.storage = storage, .training = training});
  };
  const auto arena_megabytes = [&](DType storage) { return double(plan_with(storage, true).plan.arena_bytes()) / 1e6; };
  const DType storage = storage_of(config);
  const DryPlan dry = plan_with(storage, true);
  if (transport.rank() != 0) return 0;
  const double arena = double(dry.plan.arena_bytes()), parameters = double(dry.parameters.bytes(true));
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE)) / transport.local_size();
  fmt::print("{}", dry.plan.describe());
  fmt::print("\n{} of {}x{} images per rank, policy {}, storage {}\n", batch, size, size, config.policy.name,
             name_of(storage));
  // Of training and, from the first evaluation on, of the test set.
  const double images = 2.0 * read_ahead * double(batch * size * size * 3 * int64_t{sizeof(float)});
  const double total = arena + parameters + images;
  fmt::print(
      "{} parameters: {:.1f} MB with gradients, momentum and codes; arena {:.1f} MB; images read ahead {:.1f} MB; "
      "together {:.1f} MB per rank\n",
      dry.parameters.count(), parameters / 1e6, arena / 1e6, images / 1e6, total / 1e6);
  if (storage != DType::f32)
    fmt::print("arena by storage: f32 {:.1f} MB, bf16 {:.1f} MB, int8 {:.1f} MB\n", arena_megabytes(DType::f32),
               arena_megabytes(DType::bf16), arena_megabytes(DType::s8));
  fmt::print("arena of evaluation alone: {:.1f} MB\n", double(plan_with(storage, false).plan.arena_bytes()) / 1e6);
  const bool fits = total < 0.9 * memory;
  fmt::print("{}: this machine has {:.1f} MB for each rank\n", fits ? "fits" : "does NOT fit", memory / 1e6);
  return fits ? 0 : 1;
}

int run_bench(const Config& config, Transport& transport, int64_t steps, bool json) {
  using Clock = std::chrono::steady_clock;
  Trainer trainer(config, transport);
  trainer.load_initial_weights();
  trainer.start(0);
  const int64_t warm_up = 3;  // the arena's pages, oneDNN's kernels, the first clips
  for (int64_t step = 0; step < warm_up; ++step) trainer.step(step, false);

  // Numbered as in the middle of a training, where clips are searched once in a period: the first steps do so more
  // often.
  const int64_t first = config.policy.clip.period + 1;
  // A GPU's kernels are over long after their launch, and recorded steps have no phases that the host could see.
  const bool timed = config.backend.device == "cpu" || config.backend.check_kernels;
  trainer.training_step().time_phases(timed);
  const std::vector<KernelTime> kernels_before = trainer.backend().kernel_times();
  std::vector<double> times;
  const double read_before = trainer.read_seconds();
  for (int64_t step = 0; step < steps; ++step) {
    const auto start = Clock::now();
    trainer.step(first + step, false);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double read_ms = 1e3 * (trainer.read_seconds() - read_before) / double(steps);
  double resident = double(peak_resident_bytes());
  transport.all_reduce_sum(std::span(&resident, 1));
  if (transport.rank() != 0) return 0;

  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const double per_step = 1e3 / double(steps);
  const Work work = trainer.training_step().plan().work();
  const int64_t ranks = transport.size();
  nlohmann::ordered_json phases;
  double convolution_seconds = 0, pass_seconds = 0;
  for (int p = 0; p < static_cast<int>(Phase::count); ++p) {
    const auto phase = static_cast<Phase>(p);
    const double seconds = trainer.training_step().times().seconds[p];
    if (timed) phases[name_of(phase)] = seconds * per_step;
    if (phase == Phase::forward || phase == Phase::backward_data || phase == Phase::backward_weight)
      convolution_seconds += seconds;
    if (phase == Phase::passes || phase == Phase::quantize) pass_seconds += seconds;
  }
  const double tops = 2e-12 * double(work.products) * double(steps) / convolution_seconds;
  const double gigabytes = 1e-9 * double(work.pass_bytes) * double(steps) / pass_seconds;
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();  // the slowest first
  for (const KernelTime& kernel : slowest_first(trainer.backend().kernel_times(), kernels_before))
    kernels.push_back(
        {{"name", kernel.name}, {"calls", double(kernel.calls) / double(steps)}, {"ms", kernel.seconds * per_step}});
  if (json) {
    nlohmann::ordered_json result{
        {"config", config.file},
        {"images_per_second", double(config.data.batch) / median},
        {"step_ms", 1e3 * median},
        {"step_ms_min", 1e3 * sorted.front()},
        {"step_ms_max", 1e3 * sorted.back()},
        {"steps", steps},
        {"batch", config.data.batch},
        {"ranks", transport.size()},
        {"isa", trainer.backend().isa()},
        {"backend_note", trainer.backend().note()},
        {"phases", phases},
        {"kernels", kernels},
        {"loader_processor_ms", read_ms},
        {"convolution_tops", timed ? nlohmann::ordered_json(tops) : nullptr},
        {"pass_gigabytes_per_second", timed ? nlohmann::ordered_json(gigabytes) : nullptr},
        {"arena_bytes", trainer.training_step().plan().arena_bytes()},
        {"scratch_bytes", trainer.backend().scratch_bytes()},
        {"peak_resident_bytes", resident},
        {"operations_per_step",
         {{"int8", 2 * ranks * (work.products - work.real_products)}, {"real", 2 * ranks * work.real_products}}},
        {"bytes_per_step",
         {{"convolutions", ranks * work.convolution_bytes},
          {"passes", ranks * work.pass_bytes},
          {"update", ranks * work.update_bytes}}},
        {"wire_bytes_per_step", trainer.training_step().exchange().wire_bytes() / (steps + warm_up)},
        {"exchange_busy_ms", 1e3 * trainer.training_step().exchange().busy_seconds() / double(steps + warm_up)},
        {"exchange_hidden_share", trainer.hidden_share()},
        {"commit", commit}};
    fmt::print("{}\n", result.dump());
    return 0;
  }
  const std::string note = trainer.backend().note();
  fmt::print("{}: {} steps of {} images on {} rank(s), {} {}{}\n", config.file, steps, config.data.batch,
             transport.size(), trainer.backend().name(), trainer.backend().isa(),
             note.empty() ? "" : " (" + note + ")");
  fmt::print("step {:.2f} ms median ({:.2f} to {:.2f}), {:.0f} img/s, arena {:.1f} MB, peak resident {:.1f} MB\n",
             1e3 * median, 1e3 * sorted.front(), 1e3 * sorted.back(), double(config.data.batch) / median,
             double(trainer.training_step().plan().arena_bytes()) / 1e6, resident / 1e6);
  for (const auto& [name, milliseconds] : phases.items())
    fmt::print("  {:<16} {:8.2f} ms\n", name, milliseconds.get<double>());
  for (const auto& kernel : kernels)
    fmt::print("    {:<60} {:6.1f} calls {:9.3f} ms\n", kernel["name"].get<std::string>(),
               kernel["calls"].get<double>(), kernel["ms"].get<double>());
  fmt::print("the loader's workers take {:.2f} ms of processor time for a batch, beside the step\n", read_ms);
  if (timed) fmt::print("convolutions {:.3f} TOPS, passes {:.1f} GB/s (this rank)\n", tops, gigabytes);
  return 0;
}

}  // namespace octet
