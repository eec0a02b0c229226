// `octet plan`: what a training would compute and how much memory it needs.
#include <fmt/format.h>
#include <unistd.h>

#include "src/commands/command.h"
#include "src/data/loader.h"
#include "src/train/dry_plan.h"
#include "src/train/rank.h"

namespace octet {
namespace {

int print_plan(const Config& config, Transport& transport) {
  const int64_t batch = batch_of_rank(config, transport.size()), size = image_side(config.data);
  const auto arena_bytes = [&](DType storage, bool training) {
    return double(DryPlan(config, size, size, batch, {.storage = storage, .training = training}).plan.arena_bytes());
  };
  const DType storage = storage_of(config);
  const DryPlan dry(config, size, size, batch, {.storage = storage});
  if (transport.rank() != 0) return 0;
  const double arena = double(dry.plan.arena_bytes()), parameters = double(dry.parameters.bytes(true));
  const double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE)) / transport.local_size();
  // For the training set and, from the first evaluation on, for the test set.
  const double images = 2.0 * read_ahead * double(batch * size * size * 3 * int64_t{sizeof(float)});
  const double total = arena + parameters + images;
  fmt::print("{}", dry.plan.describe());
  fmt::print("\n{} of {}x{} images per rank, policy {}, storage {}\n", batch, size, size, config.policy.name,
             name_of(storage));
  fmt::print(
      "{} parameters: {:.1f} MB with gradients, momentum and codes; arena {:.1f} MB; images read ahead {:.1f} MB; "
      "together {:.1f} MB per rank\n",
      dry.parameters.count(), parameters / 1e6, arena / 1e6, images / 1e6, total / 1e6);
  if (storage != DType::f32)
    fmt::print("arena by storage: f32 {:.1f} MB, bf16 {:.1f} MB, int8 {:.1f} MB\n", arena_bytes(DType::f32, true) / 1e6,
               arena_bytes(DType::bf16, true) / 1e6, arena_bytes(DType::s8, true) / 1e6);
  fmt::print("arena of evaluation: {:.1f} MB, in the memory of training's\n", arena_bytes(storage, false) / 1e6);
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
