// `octet train`
#include "src/train/train.h"

#include <fmt/format.h>

#include "src/commands/command.h"
#include "src/train/rank.h"

namespace octet {

namespace {

// Of a recipe that may have mistakes, which are reported later, once for all ranks.
double timeout_of_start(const Recipe& recipe) {
  try {
    return load_config(recipe.file, recipe.overrides).comm.timeout_seconds;
  } catch (const std::exception&) {
    return Config().comm.timeout_seconds;
  }
}

}  // namespace

Run train_command(CLI::App& app) {
  struct Options : Recipe, TrainOptions {
    int64_t most_ranks = 0;
  };
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("--run", options->run_directory, "Run directory (default: runs/<configuration>)")->type_name("DIR");
  app.add_flag("--resume", options->resume, "Continue from the newest valid checkpoint of the run directory");
  app.add_option("--fitting-ranks", options->most_ranks,
                 "Only print the largest number of ranks up to this one that can share data.batch")
      ->check(CLI::PositiveNumber);
  app.footer(exit_code_table());
  return [options] {
    if (options->most_ranks > 0) {
      fmt::print("{}\n", fitting_ranks(load_config(options->file, options->overrides), options->most_ranks));
      return 0;
    }
    RankWatch watch(timeout_of_start(*options));  // first, since the start of the MPI library may hang
    return run_on_ranks(
        *options,
        [&](const Config& config, Transport& transport) {
          const RankWatch::Joined joined(watch, transport, config.comm.timeout_seconds);
          stop_on(training_stops);  // first, since a job may be stopped while it reads its data
          return int(run_train(config, transport, *options, watch).code);
        },
        /*settles=*/true);
  };
}

}  // namespace octet
