// `octet eval`: figures of stored weights, or of stored detections, on the test set or on other images.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "src/commands/command.h"
#include "src/data/annotations/annotations.h"
#include "src/data/annotations/detections.h"
#include "src/data/loader.h"
#include "src/data/sources/labelled_images.h"
#include "src/report/evaluation_page.h"
#include "src/tasks/detection/figures.h"
#include "src/tasks/metric_display.h"
#include "src/train/trainer.h"
#include "src/weights/class_names.h"

namespace octet {
namespace {

using EvalJson = nlohmann::ordered_json;

struct EvalOptions : NamedNetwork {
  std::string detections, images, json, csv, html;
  bool integer = false;
  bool prints_figures() const { return json != "-" && csv != "-" && html != "-"; }
};

std::string text_of_json(const EvalJson& object) {
  return object.dump(-1, ' ', false, EvalJson::error_handler_t::replace) + "\n";
}

void require_places(const EvalOptions& options) {
  REQUIRE_USAGE(std::ranges::count(std::vector{options.json, options.csv, options.html}, "-") <= 1,
                "give a file for one of them", "two kinds of output would mix on standard output");
  require_place_for(options.json, "--json");
  require_place_for(options.csv, "--csv");
  require_place_for(options.html, "--html");
}

// The data, how many of the images could not be read, and what of their labels has no image.
struct Judged {
  const Dataset& data;
  int64_t unread = 0;
  const std::vector<std::string>& absent;
};

void write_files(const EvalOptions& options, const Judge& judge, const Judged& judged, const EvalJson& more) {
  if (!options.json.empty()) {
    EvalJson object = {{"images", judge.images()}};
    object.update(EvalJson::parse(judge.json()));
    object.update({{"unread", judged.unread}, {"absent", judged.absent}});
    object.update(more);
    write_output(options.json, text_of_json(object));
  }
  if (!options.csv.empty()) write_output(options.csv, judge.csv());
  if (!options.html.empty())
    write_output(options.html, evaluation_page(judge, judged.data,
                                               fmt::format("{} images, {}", judge.images(), judged.data.describe())));
}

void print_absent(const std::vector<std::string>& absent) {
  if (absent.empty()) return;
  fmt::print("\nlabelled images that are not there, and were not judged: {}\n", absent.size());
  for (const std::string& file : absent) fmt::print("  {}\n", printable(file));
}

// Of the integer network, beside the training's own kernels.
std::unique_ptr<Judge> compare(const EvalOptions& options, Trainer& trainer, const std::vector<std::string>& absent,
                               bool writes) {
  Trainer::Comparison comparison = trainer.compare_integers();
  const Judge &integers = *comparison.integers, &training = *comparison.training;
  const Dataset& data = *trainer.datasets().test;
  if (writes) {
    EvalJson more = {{"training", EvalJson::parse(training.json())}};
    if (comparison.images > 0) more["same_class"] = comparison.same;
    more["notes"] = comparison.notes;
    write_files(options, integers, {data, data.size() - integers.images(), absent}, more);
  }
  if (writes && options.prints_figures()) {
    print_folded(fmt::format("{} images judged: {}\nintegers  {}\ntraining  {}\n", integers.images(), data.describe(),
                             show(integers.figures(), 2, true, "  "), show(training.figures(), 2, true, "  ")));
    if (comparison.images > 0)
      fmt::print("both name the same class for {} of {} images\n", comparison.same, comparison.images);
    for (const std::string& note : comparison.notes) print_folded(fmt::format("note: {}\n", note));
    print_folded(fmt::format("\nof the integers:\n{}", integers.table()));
    print_absent(absent);
  }
  return std::move(comparison.integers);
}

std::unique_ptr<Judge> evaluate(const EvalOptions& options, Trainer& trainer, const std::vector<std::string>& absent,
                                bool writes) {
  std::unique_ptr<Judge> judge = trainer.evaluate({}, true);
  if (!writes) return judge;
  const Dataset& data = *trainer.datasets().test;
  write_files(options, *judge, {data, data.size() - judge->images(), absent}, EvalJson::object());
  if (!options.prints_figures()) return judge;
  print_folded(fmt::format("{} judged: {}\n{}{}",
                           judge->images() == 1 ? "1 image" : fmt::format("{} images", judge->images()),
                           data.describe(), judge->class_answers() ? "test " : "\n", judge->table()));
  print_absent(absent);
  return judge;
}

// Exit code 1 if an image could not be read, unless the recipe says so of its own test set.
int judge_weights(const EvalOptions& options, const Config& config, Transport& transport, const std::string& weights) {
  require_places(options);
  const Classes known = read_classes(SafetensorsFile::open(weights), weights);
  Config tolerant = config;
  tolerant.data.bad_images = "skip";
  std::vector<std::string> absent;
  Trainer trainer(tolerant, transport, false, nullptr, [&] {
    if (options.images.empty()) return open_datasets(tolerant, false, known);
    LabelledImages opened = open_labelled_images(tolerant, options.images, known);
    absent = std::move(opened.absent);
    return Datasets{nullptr, std::move(opened.images)};
  });
  trainer.load_weights(weights);
  const bool writes = transport.rank() == 0;
  const auto judged = (options.integer ? compare : evaluate)(options, trainer, absent, writes);
  const int64_t images = trainer.datasets().test->size(), unread = images - judged->images();
  if (unread > 0 && writes) spdlog::error("{} of {} images could not be read", unread, images);
  const bool expected = options.images.empty() && config.data.bad_images == "skip";
  return unread > 0 && !expected ? 1 : 0;
}

// Reads no image, and the recipe's network plays no part.
void judge_stored_detections(const EvalOptions& options, const Config& config, Transport& transport) {
  require_places(options);
  if (transport.rank() != 0) return;
  const Annotations truth = test_annotations(config);
  require_objects_to_find(truth, config.data.root);
  const std::vector<Detection> detections = read_detections(options.detections, truth);
  const DetectionFigures judged = judge_detections(config, truth, detections);
  const std::string what = fmt::format("{} detections on {} images", detections.size(), truth.images.size());
  if (!options.json.empty()) {
    EvalJson object = {{"images", truth.images.size()}};
    object.update(EvalJson::parse(detection_json(judged)));
    write_output(options.json, text_of_json(object));
  }
  if (!options.csv.empty()) write_output(options.csv, detection_csv(judged));
  if (!options.html.empty()) write_output(options.html, evaluation_page(judged, what));
  if (options.prints_figures()) print_folded(fmt::format("{}\n\n{}", what, detection_table(judged)));
}

void add_outputs(CLI::App& app, EvalOptions& options) {
  app.add_option("--json", options.json,
                 "Write one JSON object: the figures, those of each class and, of a classifier, the confusion matrix; "
                 "without FILE, print it")
      ->expected(0, 1)
      ->default_str("-")
      ->option_text("[FILE]");
  app.add_option("--csv", options.csv, "Write a table with one line for each class; -: print it")->type_name("FILE");
  app.add_option("--html", options.html,
                 "Write a page: the figures of the classes and, of a classifier, the confusion matrix and the most "
                 "confident mistakes")
      ->type_name("FILE");
}

// `octet eval --json RUN`: the run is no file to write.
void find_name(EvalOptions& options) {
  if (options.named.empty() && options.json != "-") options.named = std::exchange(options.json, "-");
  REQUIRE_USAGE(!options.named.empty(), "octet eval RUN; octet help eval says more", "network is required");
}

}  // namespace

Run eval_command(CLI::App& app) {
  const auto options = std::make_shared<EvalOptions>();
  add_network(app, *options);
  app.get_option("network")->required(false);  // --json may have taken it
  CLI::Option* const detections =
      app.add_option("--detections", options->detections,
                     "Detections on a recipe's test set with objects, in COCO's results format")
          ->type_name("FILE");
  detections->excludes(app.get_option("--weights"));
  app.add_option(
         "--images", options->images,
         "Judge the images of this folder, and not the test set. For a classifier it holds a folder of images for "
         "each class; for a detector annotations in the form of PASCAL VOC, COCO or YOLO")
      ->type_name("DIR")
      ->excludes(detections);
  add_outputs(app, *options);
  app.add_flag(
         "--integer", options->integer,
         "Compute with 8-bit integers, as the network is deployed and as `octet predict` answers, and compare with "
         "the training's kernels. Without it, the training's kernels answer, as `octet predict --training`")
      ->excludes(detections);
  return [options] {
    find_name(*options);
    if (!options->detections.empty())
      return run_on_ranks({options->named, options->overrides}, [&](const Config& config, Transport& transport) {
        judge_stored_detections(*options, config, transport);
        return 0;
      });
    return run_with_network(*options, [&](const Config& config, Transport& transport, const std::string& weights) {
      return judge_weights(*options, config, transport, weights);
    });
  };
}

}  // namespace octet
