// `octet predict`: what a trained network says of image files.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iostream>
#include <optional>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/sources/named_images.h"
#include "src/report/prediction_page.h"

namespace octet {
namespace {

struct PredictOptions {
  NamedNetwork network;
  std::string json, csv, html;
  std::vector<std::string> images;
  std::optional<double> score;
  int64_t top = 5;
  bool logits = false, integer = false, training = false;
  Arithmetic arithmetic() const {
    return integer ? Arithmetic::integers : training ? Arithmetic::training : Arithmetic::usual;
  }
};

// `-` among the paths stands for the lines of standard input.
std::vector<std::string> with_listed(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    if (path != "-") {
      all.push_back(path);
      continue;
    }
    for (std::string line; std::getline(std::cin, line);)
      if (!line.empty()) all.push_back(line);
  }
  REQUIRE_USAGE(!all.empty(), "give a list with one path in each line", "standard input names no image");
  return all;
}

void write_json(const std::string& file, const std::vector<std::string>& objects) {
  std::string text;
  if (file == "-") {
    for (const std::string& object : objects) text += object + "\n";
    return write_output(file, text);
  }
  for (const std::string& object : objects) text += (text.empty() ? "\n" : ",\n") + object;
  write_output(file, "[" + text + "\n]\n");
}

void refuse_options(const PredictOptions& options, const std::string& network, bool detects) {
  REQUIRE_USAGE(detects || !options.score, "leave --score out", "--score is for detectors, and ", network, " is none");
  REQUIRE_USAGE(!options.logits || !options.json.empty(), "add --json FILE, or --json -",
                "--logits adds numbers to the JSON objects, and none are asked for");
  REQUIRE_USAGE(!options.logits || !detects, "leave --logits out", "--logits is for classifiers, and ", network,
                " is none");
  REQUIRE_USAGE(std::ranges::count(std::vector{options.json, options.csv, options.html}, "-") <= 1,
                "give a file for one of them", "two kinds of output would mix on standard output");
  require_place_for(options.json, "--json");
  require_place_for(options.csv, "--csv");
  require_place_for(options.html, "--html");
}

// Exit code 1 if an image could not be read.
int predict(const PredictOptions& options, Config config, Transport& transport, const std::string& weights) {
  const Task& task = task_of(config);
  refuse_options(options, config.model.name, task.objects);
  if (task.objects) config.detect.score = options.score.value_or(usual_score);
  Predictor network(config, transport, weights);
  const std::vector<std::string> files = find_images(with_listed(options.images));
  const std::unique_ptr<Dataset> data = open_named_images(network.config(), files, network.classes());
  const std::vector<Prediction> predictions = network.predict(*data, options.arithmetic());
  const auto shown = task.presentation(network.classes(), {options.top, options.logits});
  std::vector<std::string> objects;
  std::string text, table = shown->csv_names();
  for (const auto& [sample, answers] : predictions) {
    const std::string& file = files[static_cast<size_t>(sample)];
    for (std::string& object : shown->json({sample + 1, file}, answers)) objects.push_back(std::move(object));
    table += shown->csv({sample + 1, file}, answers);
    text += printable(file) + ":" + shown->text(answers);
  }
  if (!options.json.empty()) write_json(options.json, objects);
  if (!options.csv.empty()) write_output(options.csv, table);
  if (!options.html.empty()) write_output(options.html, prediction_page(network, *shown, files, predictions));
  if (options.json.empty() && options.csv.empty() && options.html.empty()) fmt::print("{}", text);
  if (data->skipped() > 0) spdlog::error("{} of {} images could not be read", data->skipped(), files.size());
  return data->skipped() > 0 ? 1 : 0;
}

}  // namespace

Run predict_command(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  add_network(app, options->network);
  app.add_option("images", options->images,
                 "JPEG and PNG files, and folders of them; -: read paths from standard input")
      ->type_name("PATH")
      ->required();
  app.add_option("--json", options->json,
                 "Write a JSON list: for a detector in COCO's results format with file names, otherwise the most "
                 "probable classes of each image; -: print one object on each line")
      ->type_name("FILE");
  app.add_option("--csv", options->csv, "Write a table with one line for each answer; -: print it")->type_name("FILE");
  app.add_option("--html", options->html, "Write a page of pictures")->type_name("FILE");
  app.add_flag("--logits", options->logits, "Classifiers: add the logits of all classes to the JSON objects");
  CLI::Option* const integer = app.add_flag("--integer", options->integer,
                                            "Compute with 8-bit integers, as the network is deployed, or not at all");
  app.add_flag("--training", options->training,
               "Compute with the training's kernels, as `octet eval`. Without either: with integers, where the network "
               "has them")
      ->excludes(integer);
  app.add_option("--score", options->score,
                 "Detectors: least score of an object. To judge what is found, take that of the recipe, detect.score")
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(say(usual_score));
  app.add_option("--top", options->top, "Classifiers: number of classes to name")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  return [options] {
    return run_with_network(options->network,
                            [&](const Config& config, Transport& transport, const std::string& weights) {
                              return predict(*options, config, transport, weights);
                            });
  };
}

}  // namespace octet
