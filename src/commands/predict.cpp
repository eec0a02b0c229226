// `octet predict`: what a trained network says of image files.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/named_images.h"
#include "src/models/detectors.h"
#include "src/report/predictions.h"

namespace octet {
namespace {

constexpr double usual_score = 0.3;

struct Options : Recipe {
  std::string weights, json;
  std::vector<std::string> images;
  std::optional<double> score;
  int64_t top = 5;
};

void write_json(const std::string& file, const std::vector<std::string>& objects) {
  std::string lines;
  if (file == "-") {
    for (const std::string& object : objects) lines += object + "\n";
    fmt::print("{}", lines);
    return;
  }
  for (const std::string& object : objects) lines += (lines.empty() ? "\n" : ",\n") + object;
  write_durably(file, "[" + lines + "\n]\n");
}

// Exit code 1 if an image could not be read.
int predict(const Options& options, Config config, Transport& transport) {
  const bool detects = is_detector(config.model.name);
  REQUIRE_USAGE(detects || !options.score, "leave --score out", "--score is for detectors, and ", config.model.name,
                " is none");
  if (detects) config.detect.score = options.score.value_or(usual_score);
  const Predictor network(config, transport, options.weights);
  const std::vector<std::string> files = find_images(options.images);
  const std::unique_ptr<Dataset> data = open_named_images(network.config(), files, network.classes());
  const std::vector<Prediction> predictions = network.predict(*data);
  const Annotations& images = *data->annotations();
  if (options.json.empty())
    for (const Prediction& prediction : predictions)
      fmt::print("{}", prediction_text(network, images, prediction, options.top));
  else
    write_json(options.json, prediction_objects(network, images, predictions, options.top));
  if (data->skipped() > 0) spdlog::error("{} of {} images could not be read", data->skipped(), files.size());
  return data->skipped() > 0 ? 1 : 0;
}

}  // namespace

Run predict_command(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_recipe(app, *options);
  app.add_option("images", options->images, "JPEG and PNG files, and folders of them")->required();
  app.add_option("--weights", options->weights, "A safetensors file, for example best.safetensors of a run")
      ->required();
  app.add_option("--json", options->json,
                 "Write a JSON list: for a detector in COCO's results format with file names, otherwise the most "
                 "probable classes of each image; -: print one object on each line");
  app.add_option("--score", options->score,
                 "Detectors: least score of an object. To judge what is found, take that of the recipe, detect.score")
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(say(usual_score));
  app.add_option("--top", options->top, "Classifiers: number of classes to name")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  return [options] {
    return run_on_ranks(
        *options, [&](const Config& config, Transport& transport) { return predict(*options, config, transport); });
  };
}

}  // namespace octet
