// `octet eval`: loss and accuracy of stored weights on the test set.
#include <fmt/format.h>

#include "src/commands/command.h"
#include "src/tasks/metric_display.h"
#include "src/train/trainer.h"

namespace octet {

Run eval_command(CLI::App& app) {
  struct Options : Recipe {
    std::string weights;
  };
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("--weights", options->weights, "A safetensors file, for example weights.safetensors of a run")
      ->required();
  return [options] {
    return run_on_ranks(*options, [&](const Config& config, Transport& transport) {
      Trainer trainer(config, transport, false);
      const SafetensorsFile file = SafetensorsFile::open(options->weights);
      file.require_finite();
      trainer.state().load(file, options->weights, true);
      const Scalars figures = *trainer.evaluate();
      if (transport.rank() == 0) fmt::print("test {}\n", show(figures, 2, true, "  "));
      return 0;
    });
  };
}

}  // namespace octet
