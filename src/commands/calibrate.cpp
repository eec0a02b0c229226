// `octet calibrate`: ranges of activations for weights of another policy or program.
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/named_images.h"
#include "src/train/predictor.h"
#include "src/train/trained_network.h"

namespace octet {

Run calibrate_command(CLI::App& app) {
  struct CalibrateOptions {
    std::string network, weights, output;
    std::vector<std::string> images, overrides;
  };
  const auto options = std::make_shared<CalibrateOptions>();
  app.add_option("network", options->network,
                 "Directory of a run, a .safetensors file that octet wrote, or a recipe with --weights")
      ->required();
  app.add_option("images", options->images, "Image files and folders of them, such as the network will see")
      ->required();
  add_overrides(app, options->overrides);
  app.add_option("--weights", options->weights, "A safetensors file: octet's, torchvision's or timm's");
  app.add_option("--output", options->output, "The same weights with ranges, a safetensors file")->required();
  return [options] {
    std::string weights;
    const auto read = [&] {
      TrainedNetwork found = find_network(options->network, options->weights, options->overrides);
      weights = std::move(found.weights);
      return std::move(found.config);
    };
    return run_on_ranks(read, [&](const Config& config, Transport& transport) {
      const Predictor network(config, transport, weights);
      const auto data = open_named_images(network.config(), find_images(options->images), network.classes());
      const int64_t images = network.calibrate(*data, options->output);
      fmt::print("{}: with ranges measured on {} images\n", options->output, images);
      return 0;
    });
  };
}

}  // namespace octet
