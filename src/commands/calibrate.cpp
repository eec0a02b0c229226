// `octet calibrate`: ranges of activations for weights of another policy or program.
#include <fmt/format.h>

#include "src/commands/command.h"
#include "src/data/sources/named_images.h"
#include "src/train/predictor.h"

namespace octet {

Run calibrate_command(CLI::App& app) {
  struct CalibrateOptions {
    NamedNetwork network;
    std::string output;
    std::vector<std::string> images;
  };
  const auto options = std::make_shared<CalibrateOptions>();
  add_network(app, options->network);
  app.add_option("images", options->images, "Image files and folders of them, such as the network will see")
      ->type_name("PATH")
      ->required();
  app.add_option("--output", options->output, "The same weights with ranges, a safetensors file")
      ->type_name("FILE")
      ->required();
  return [options] {
    return run_with_network(
        options->network, [&](const Config& config, Transport& transport, const std::string& weights) {
          require_place_for(options->output, "--output", /*in_order=*/false);
          const Predictor network(config, transport, weights);
          const auto data = open_named_images(network.config(), find_images(options->images), network.classes());
          const int64_t images = network.calibrate(*data, behind_links(options->output));
          fmt::print("{}: with ranges measured on {} of {} images{}\n", options->output, images, data->size(),
                     images < data->size() ? ": ranges come from whole batches" : "");
          return 0;
        });
  };
}

}  // namespace octet
