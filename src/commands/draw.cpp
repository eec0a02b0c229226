// `octet draw`: pictures with boxes.
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/report/pictures/draw_predictions.h"

namespace octet {

Run draw_command(CLI::App& app) {
  struct Options : Recipe {
    PredictionDrawing draw;
    std::string split = "test";
  };
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("--weights", options->draw.weights,
                 "Draw what a detector finds with this safetensors file, for example best.safetensors of a run")
      ->type_name("FILE");
  app.add_flag("--truth", options->draw.truth, "Draw the annotated boxes, beside what a detector finds");
  app.add_option("--output", options->draw.output, "Directory for the pictures, PNG")->type_name("DIR")->required();
  app.add_option("--count", options->draw.count, "Number of pictures, evenly spread over the data set")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--split", options->split, "Which images")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  app.add_option("--images", options->draw.images, "Draw these files, and those of these folders, with --weights")
      ->type_name("PATH");
  app.add_option("--score", options->draw.score, "Least score of a drawn detection")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag("--augmented", options->draw.augmented,
               "Draw what the network reads while training: resized, perhaps mirrored, on its canvas, and the boxes "
               "that train");
  return [options] {
    options->draw.train = options->split == "train";
    return run_on_ranks(*options, [&](const Config& config, Transport& transport) {
      REQUIRE_USAGE(transport.size() == 1, "start octet draw without mpirun", "octet draw runs on one rank, not on ",
                    transport.size());
      const PredictionDrawing& draw = options->draw;
      REQUIRE_USAGE(draw.truth || !draw.weights.empty(), "give --truth, --weights FILE, or both",
                    "octet draw has no boxes to draw");
      REQUIRE_USAGE(draw.images.empty() || !draw.weights.empty(), "give --weights FILE",
                    "the boxes on image files are those that a detector finds");
      REQUIRE_USAGE(!draw.augmented || draw.weights.empty(), "leave --augmented or --weights out",
                    "a detector reads no augmented images when it predicts");
      const int64_t count = draw.weights.empty() ? draw_truth(config, draw) : draw_predictions(config, transport, draw);
      fmt::print("{} pictures in {}\n", count, draw.output);
      return 0;
    });
  };
}

}  // namespace octet
