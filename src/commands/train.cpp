// `octet train`
#include "src/train/train.h"

#include "src/commands/command.h"

namespace octet {

Run train_command(CLI::App& app) {
  struct Options : Recipe, TrainOptions {};
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("--run", options->run_directory, "Run directory (default: runs/<configuration>)");
  app.add_flag("--resume", options->resume, "Continue from the newest valid checkpoint of the run directory");
  return [options] {
    return run_on_ranks(
        *options, [&](const Config& config, Transport& transport) { return run_train(config, transport, *options); });
  };
}

}  // namespace octet
