// `octet calibrate`: ranges of activations for weights of another policy or program.
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/train/class_names.h"
#include "src/train/digest.h"
#include "src/train/trainer.h"
#include "src/version.h"

namespace octet {
namespace {

struct CalibrateOptions : Recipe {
  std::string weights, output;
  int64_t batches = 16;
};

int calibrate(const CalibrateOptions& options, Config config, Transport& transport) {
  config.data.augment = false;
  config.model.initial_weights = options.weights;
  Trainer trainer(config, transport);
  const std::string loaded = trainer.load_initial_weights();
  trainer.calibrate(options.batches);
  if (transport.rank() != 0) return 0;
  std::map<std::string, std::string> metadata = {{"config", to_yaml(config)}, {"commit", commit}};
  add_classes(classes_of(*trainer.datasets().test), metadata);
  std::vector<std::vector<float>> storage;
  const std::vector<NamedTensor> tensors = trainer.state().save(storage, true);
  add_digest(tensors, metadata);
  write_safetensors(options.output, tensors, metadata);
  fmt::print("{}\n{}: with ranges measured on {} images\n", loaded, options.output,
             options.batches * config.data.batch);
  return 0;
}

}  // namespace

Run calibrate_command(CLI::App& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  add_recipe(app, *options);
  app.add_option("--weights", options->weights, "A safetensors file: octet's, torchvision's or timm's")->required();
  app.add_option("--output", options->output, "The same weights with ranges, a safetensors file")->required();
  app.add_option("--batches", options->batches, "Batches of the training set")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  return [options] {
    return run_on_ranks(
        *options, [&](const Config& config, Transport& transport) { return calibrate(*options, config, transport); });
  };
}

}  // namespace octet
