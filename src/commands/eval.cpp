// `octet eval`: figures of stored weights, or of stored detections, on the test set.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/annotations/annotations.h"
#include "src/data/annotations/detections.h"
#include "src/data/loader.h"
#include "src/data/sources/named_images.h"
#include "src/tasks/detection/figures.h"
#include "src/tasks/metric_display.h"
#include "src/train/trainer.h"
#include "src/weights/class_names.h"

namespace octet {
namespace {

struct EvalOptions : NamedNetwork {
  std::string detections, images;
  bool json = false, integer = false;
};

// images: the number that were judged.
std::string with_count(int64_t images, const std::string& figures) {
  nlohmann::ordered_json object = {{"images", images}};
  object.update(nlohmann::ordered_json::parse(figures));
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Of the integer network, beside the training's own kernels.
void compare(const EvalOptions& options, Trainer& trainer, Transport& transport) {
  const Trainer::Comparison comparison = trainer.compare_integers();
  if (transport.rank() != 0) return;
  const Judge &integers = *comparison.integers, &training = *comparison.training;
  if (options.json) {
    auto object = nlohmann::ordered_json::parse(with_count(integers.images(), integers.json()));
    object["training"] = nlohmann::ordered_json::parse(training.json());
    if (comparison.images > 0) object["same_class"] = comparison.same;
    object["notes"] = comparison.notes;
    fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  print_folded(fmt::format("{} images judged: {}\nintegers  {}\ntraining  {}\n", integers.images(),
                           trainer.datasets().test->describe(), show(integers.figures(), 2, true, "  "),
                           show(training.figures(), 2, true, "  ")));
  if (comparison.images > 0)
    fmt::print("both name the same class for {} of {} images\n", comparison.same, comparison.images);
  for (const std::string& note : comparison.notes) print_folded(fmt::format("note: {}\n", note));
}

void judge_weights(const EvalOptions& options, const Config& config, Transport& transport, const std::string& weights) {
  const Classes known = read_classes(SafetensorsFile::open(weights), weights);
  Trainer trainer(config, transport, false, nullptr, [&] {
    return options.images.empty() ? open_datasets(config, false, known)
                                  : Datasets{nullptr, open_labelled_images(config, options.images, known)};
  });
  trainer.load_weights(weights);
  if (options.integer) return compare(options, trainer, transport);
  const std::unique_ptr<Judge> judge = trainer.evaluate();
  if (transport.rank() != 0) return;
  const std::string table = judge->table();
  if (options.json)
    fmt::print("{}\n", with_count(judge->images(), judge->json()));
  else
    print_folded(fmt::format("{} judged: {}\n{}",
                             judge->images() == 1 ? "1 image" : fmt::format("{} images", judge->images()),
                             trainer.datasets().test->describe(),
                             table.empty() ? "test " + show(judge->figures(), 2, true, "  ") + "\n" : "\n" + table));
}

// Reads no image, and the recipe's network plays no part.
void judge_stored_detections(const EvalOptions& options, const Config& config, Transport& transport) {
  if (transport.rank() != 0) return;
  const Annotations truth = test_annotations(config);
  require_objects_to_find(truth, config.data.root);
  const std::vector<Detection> detections = read_detections(options.detections, truth);
  const DetectionFigures judged = judge_detections(config, truth, detections);
  if (options.json) {
    fmt::print("{}\n", with_count(int64_t(truth.images.size()), detection_json(judged)));
    return;
  }
  print_folded(
      fmt::format("{} detections on {} images\n\n{}", detections.size(), truth.images.size(), detection_table(judged)));
}

}  // namespace

Run eval_command(CLI::App& app) {
  const auto options = std::make_shared<EvalOptions>();
  add_network(app, *options);
  CLI::Option* const detections = app.add_option(
      "--detections", options->detections, "Detections on a recipe's test set with objects, in COCO's results format");
  detections->excludes(app.get_option("--weights"));
  app.add_option("--images", options->images,
                 "A folder with a folder of images for each class: all of them are judged, and not the test set")
      ->excludes(detections);
  app.add_flag("--json", options->json, "Print one JSON object");
  app.add_flag("--integer", options->integer,
               "Compute with 8-bit integers, as the network is deployed, and compare with the training's kernels")
      ->excludes(detections);
  return [options] {
    if (!options->detections.empty())
      return run_on_ranks({options->named, options->overrides}, [&](const Config& config, Transport& transport) {
        judge_stored_detections(*options, config, transport);
        return 0;
      });
    return run_with_network(*options, [&](const Config& config, Transport& transport, const std::string& weights) {
      judge_weights(*options, config, transport, weights);
      return 0;
    });
  };
}

}  // namespace octet
