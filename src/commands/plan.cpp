// `octet plan`: what a training would compute and how much memory it needs.
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "kernels/base/terminal.h"
#include "src/commands/command.h"
#include "src/data/augment/canvases.h"
#include "src/data/loader.h"
#include "src/train/dry_plan.h"
#include "src/train/host_limits.h"
#include "src/train/memory_need.h"
#include "src/train/rank.h"
#include "src/train/settle.h"
#include "src/train/shares.h"
#include "src/weights/pixel_normalization.h"

namespace octet {

// What this number of threads of one rank would have to share out, and how much faster than one thread they would be.
int plan_threads(const Config&, Transport&, int threads);

namespace {

constexpr double megabytes = 1e-6;
// A training has watched its ranks and opened its run before it chooses: it takes 1.1 MB more than a plan then, and
// starts differ by 0.6 MB. What a plan promises must fit.
constexpr int64_t training_has_more = 2'500'000;

std::optional<PixelScale> pixels_of(const Config& config, bool training) {
  if (training && config.augment.mixup > 0) return {};
  return normalization_of(config.data).pixels();
}

// The network's inputs and the memory of their plans, which take turns in one arena.
class PlansOfRecipe {
 public:
  PlansOfRecipe(const Config& config, int64_t batch)
      : config_(config), batch_(batch), shapes_(input_shapes(config.data)), largest_(shapes_.front()) {
    for (const ImageShape& shape : shapes_)
      if (arena(shape, storage_of(config), true) > arena(largest_, storage_of(config), true)) largest_ = shape;
  }

  size_t arena(const ImageShape& shape, DType storage, bool training) const {
    return DryPlan(config_, shape.height, shape.width, batch_,
                   {.storage = storage,
                    .norm_group = config_.train.norm_group,
                    .training = training,
                    .pixels = pixels_of(config_, training)})
        .plan.arena_bytes();
  }
  const std::vector<ImageShape>& shapes() const { return shapes_; }
  const ImageShape& largest() const { return largest_; }  // its plan needs the most memory

 private:
  const Config& config_;
  int64_t batch_;
  std::vector<ImageShape> shapes_;
  ImageShape largest_;
};

std::string text_of(const ImageShape& shape) { return fmt::format("{}x{}", shape.height, shape.width); }

template <class... Values>
void print_line(fmt::format_string<Values...> format, Values&&... values) {
  print_folded(fmt::format(format, std::forward<Values>(values)...));
}

void print_canvases(const PlansOfRecipe& plans, DType storage) {
  print_line("canvases, height x width:\n");
  for (const ImageShape& shape : plans.shapes())
    print_line("  {:<12} arena {:.1f} MB, of evaluation {:.1f} MB\n", text_of(shape),
               double(plans.arena(shape, storage, true)) * megabytes,
               double(plans.arena(shape, storage, false)) * megabytes);
}

// With the number of classes of the data where the recipe leaves it open. As in a training, it is the training set's.
Config with_classes(Config config) {
  if (config.model.classes == 0) config.model.classes = open_datasets(config).test->classes();
  return config;
}

int print_plan(const Config& config, Transport& transport, const HostMemory& host) {
  const int64_t batch = batch_of_plan(config, transport.size()), parts = config.train.accumulate;
  const DType storage = storage_of(config);
  const PlansOfRecipe plans(config, batch);
  const ImageShape& shape = plans.largest();
  const DryPlan dry(config, shape.height, shape.width, batch,
                    {.storage = storage, .norm_group = config.train.norm_group, .pixels = pixels_of(config, true)});
  if (transport.rank() != 0) return 0;
  const HostLimits limits = host_limits();
  const double memory = double(limits.memory) / transport.local_size();
  const MemoryNeed need = memory_needed(config, transport.size(), host);
  const bool on_device = config.backend.device != "cpu";
  const double on_it = double(need.arena + need.parameters), total = double(need.total()), of_host = total - on_it;
  print_folded(dry.plan.describe(terminal_columns(STDOUT_FILENO)));
  print_line("\n{} of {} images per rank{}, policy {}, storage {}\n", batch, text_of(shape),
             parts > 1 ? fmt::format(" at once, {} times in a step", parts) : "", config.policy.name, name_of(storage));
  if (plans.shapes().size() > 1) print_canvases(plans, storage);
  print_line("{} parameters; a rank takes {}\n", dry.parameters.count(), need.text());
  if (!need.host.absent.empty()) print_line("not counted is the data set: {}\n", need.host.absent);
  if (storage != DType::f32)
    print_line("arena by storage: f32 {:.1f} MB, bf16 {:.1f} MB, int8 {:.1f} MB\n",
               double(plans.arena(shape, DType::f32, true)) * megabytes,
               double(plans.arena(shape, DType::bf16, true)) * megabytes,
               double(plans.arena(shape, DType::s8, true)) * megabytes);
  print_line("arena of evaluation: {:.1f} MB, in the memory of training's\n",
             double(plans.arena(shape, storage, false)) * megabytes);
  if (on_device)
    print_line(
        "of these {:.1f} MB of parameters and arena in the GPU, beside its kernels' buffers: `octet train` compares "
        "them with what is free there\n",
        on_it * megabytes);
  const bool fits = (on_device ? of_host : total) < 0.9 * memory;
  print_line("{}{}: {} {:.1f} MB for each rank\n", on_device ? "the rest " : "", fits ? "fits" : "does NOT fit",
             limits.memory_group ? "the control group of this process allows" : "this machine has", memory * megabytes);
  return fits ? 0 : 1;
}

}  // namespace

Run plan_command(CLI::App& app) {
  const auto recipe = std::make_shared<Recipe>();
  const auto threads = std::make_shared<int>(0);
  const auto memory = std::make_shared<int64_t>(0);
  add_recipe(app, *recipe);
  app.add_option("--threads", *threads,
                 "Instead: how a CPU of so many threads would share the step out. One thread of this machine computes "
                 "some steps of random images for it")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory-mb", *memory, "As train.memory_mb: what a training with so many megabytes would be")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  return [recipe, threads, memory] {
    Recipe limited = *recipe;
    if (*memory > 0) limited.overrides.push_back(fmt::format("train.memory_mb={}", *memory));
    return run_on_ranks(limited, [&](const Config& config, Transport& transport) {
      if (*threads > 0) return plan_threads(with_classes(config), transport, *threads);
      const Config known = with_classes(config);
      const int of_rank = JobShares(transport, int(config.backend.threads)).threads();
      HostMemory host = transport.rank() == 0 ? host_memory(known, of_rank) : HostMemory{};
      host.program += training_has_more;
      return print_plan(with_memory(known, transport, host), transport, host);
    });
  };
}

}  // namespace octet
