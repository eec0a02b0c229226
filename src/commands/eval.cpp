// `octet eval`: figures of stored weights, or of stored detections, on the test set.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/annotations/detections.h"
#include "src/data/loader.h"
#include "src/tasks/detection/figures.h"
#include "src/tasks/metric_display.h"
#include "src/train/trainer.h"
#include "src/weights/class_names.h"

namespace octet {
namespace {

struct EvalOptions : Recipe {
  std::string weights, detections;
  bool json = false;
};

void judge_weights(const EvalOptions& options, const Config& config, Transport& transport) {
  const Classes known = read_classes(SafetensorsFile::open(options.weights), options.weights);
  Trainer trainer(config, transport, false, nullptr, known);
  trainer.load_weights(options.weights);
  const std::unique_ptr<Judge> judge = trainer.evaluate();
  if (transport.rank() != 0) return;
  const std::string table = judge->table();
  if (options.json)
    fmt::print("{}\n", judge->json());
  else
    fmt::print("{}", table.empty() ? "test " + show(judge->figures(), 2, true, "  ") + "\n" : table);
}

// Reads no image, and the recipe's network plays no part.
void judge_stored_detections(const EvalOptions& options, const Config& config, Transport& transport) {
  if (transport.rank() != 0) return;
  const Annotations truth = test_annotations(config);
  const std::vector<Detection> detections = read_detections(options.detections, truth);
  const DetectionFigures judged = judge_detections(config, truth, detections);
  if (options.json) {
    fmt::print("{}\n", detection_json(judged));
    return;
  }
  fmt::print("{} detections on {} images\n\n{}", detections.size(), truth.images.size(), detection_table(judged));
}

}  // namespace

Run eval_command(CLI::App& app) {
  const auto options = std::make_shared<EvalOptions>();
  add_recipe(app, *options);
  CLI::Option* const weights =
      app.add_option("--weights", options->weights, "A safetensors file, for example weights.safetensors of a run");
  app.add_option("--detections", options->detections, "Detections on a test set with objects, in COCO's results format")
      ->excludes(weights);
  app.add_flag("--json", options->json, "Print one JSON object");
  return [options] {
    return run_on_ranks(*options, [&](const Config& config, Transport& transport) {
      REQUIRE_USAGE(options->weights.empty() != options->detections.empty(), "give --weights FILE or --detections FILE",
                    "octet eval has nothing to evaluate");
      options->detections.empty() ? judge_weights(*options, config, transport)
                                  : judge_stored_detections(*options, config, transport);
      return 0;
    });
  };
}

}  // namespace octet
