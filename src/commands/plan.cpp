// `octet plan`: what a training would compute and how much memory it needs.
#include <fmt/format.h>
#include <unistd.h>

#include "src/commands/command.h"
#include "src/data/loader.h"
#include "src/train/dry_plan.h"
#include "src/train/trainer.h"

namespace octet {
namespace {

int print_plan(const Config& config, Transport& transport) {
  const PlanOptions options = plan_options(config);
  const auto arena_megabytes = [&](DType storage) {
    return double(DryPlan(config, transport.size(), {.storage = storage}).plan.arena_bytes()) / 1e6;
  };
  const DryPlan dry(config, transport.size(), options);
  const Plan& plan = dry.plan;
  const int64_t batch = config.data.batch / transport.size(), size = image_side(config.data);
  if (transport.rank() != 0) return 0;
  const double arena = double(plan.arena_bytes()), parameters = double(plan.parameter_bytes());
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE)) / transport.local_size();
  // For the training set and, from the first evaluation on, for the test set.
  const double images = 2.0 * read_ahead * double(batch * size * size * 3 * int64_t{sizeof(float)});
  const double total = arena + parameters + images;
  fmt::print("{}", plan.describe());
  fmt::print("\n{} of {}x{} images per rank, policy {}, storage {}\n", batch, size, size, config.policy.name,
             name_of(options.storage));
  fmt::print(
      "{} parameters: {:.1f} MB with gradients, momentum and codes; arena {:.1f} MB; images read ahead {:.1f} MB; "
      "together {:.1f} MB per rank\n",
      plan.parameter_count(), parameters / 1e6, arena / 1e6, images / 1e6, total / 1e6);
  if (options.storage != DType::f32)
    fmt::print("arena by storage: f32 {:.1f} MB, bf16 {:.1f} MB, int8 {:.1f} MB\n", arena_megabytes(DType::f32),
               arena_megabytes(DType::bf16), arena_megabytes(DType::s8));
  const bool fits = total < 0.9 * memory;
  fmt::print("{}: this machine has {:.1f} MB for each rank\n", fits ? "fits" : "does NOT fit", memory / 1e6);
  return fits ? 0 : 1;
}

}  // namespace

Run plan_command(CLI::App& app) {
  const auto recipe = std::make_shared<Recipe>();
  add_recipe(app, *recipe);
  return [recipe] { return run_on_ranks(*recipe, print_plan); };
}

}  // namespace octet
