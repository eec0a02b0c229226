// `octet draw`: pictures with boxes.
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/report/draw_truth.h"

namespace octet {

Run draw_command(CLI::App& app) {
  struct Options : Recipe {
    DrawOptions draw;
    std::string split = "test";
    bool truth = false;
  };
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_flag("--truth", options->truth, "Draw the annotated boxes")->required();
  app.add_option("--output", options->draw.output, "Directory for the pictures, PNG")->required();
  app.add_option("--count", options->draw.count, "Number of pictures, evenly spread over the data set")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--split", options->split, "Which images: train or test")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  app.add_flag("--augmented", options->draw.augmented,
               "Draw what the network reads while training: resized, perhaps mirrored, on its canvas, and the boxes "
               "that train");
  return [options] {
    options->draw.train = options->split == "train";
    return run_on_ranks(*options, [&](const Config& config, Transport& transport) {
      REQUIRE_USAGE(transport.size() == 1, "start octet draw without mpirun", "octet draw runs on one rank, not on ",
                    transport.size());
      fmt::print("{} pictures in {}\n", draw_truth(config, options->draw), options->draw.output);
      return 0;
    });
  };
}

}  // namespace octet
