// `octet export`: a trained network as a file of integers that other programs run.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/sources/named_images.h"
#include "src/data/sources/source.h"
#include "src/deploy/formats.h"
#include "src/report/export_samples.h"
#include "src/tasks/metric_display.h"
#include "src/train/trainer.h"
#include "src/version.h"
#include "src/weights/class_names.h"
#include "src/weights/pixel_normalization.h"

namespace octet {
namespace {

struct ExportOptions : NamedNetwork {
  std::string format, output, images, samples;
  double agreement = 99;
  bool unchecked = false;
};

// The file's network and the training's kernels on the test images.
void check(const ExportOptions& options, Trainer& trainer, const IntegerNetwork& read) {
  ExportSamples samples(read);
  const Trainer::Comparison comparison =
      trainer.compare_integers(&read, [&](const Batch& batch, const Answers& answers) {
        if (!options.samples.empty()) samples.take(trainer, batch, answers);
      });
  const double same = 100 * double(comparison.same) / double(std::max<int64_t>(1, comparison.images));
  fmt::print("{:<12} {}\n{:<12} {}\n", "the file", show(comparison.integers->figures(), 2, true, "  "), "octet eval",
             show(comparison.training->figures(), 2, true, "  "));
  fmt::print("both name the same class for {} of {} images ({:.2f} %)\n", comparison.same, comparison.images, same);
  for (const std::string& note : comparison.notes) fmt::print("note: {}\n", note);
  REQUIRE_USAGE(same >= options.agreement,
                "set policy.quantize_first and policy.quantize_last in the training, or lower --agreement",
                "the file and the trained network name the same class for ", fmt::format("{:.2f}", same),
                " % of the images, and not for ", options.agreement, " %; nothing was written");
  if (!options.samples.empty()) samples.write(options.samples);
}

// How an image file becomes the network's input, for programs and people.
std::string preprocessing(const Config& config) {
  const nlohmann::ordered_json steps = {{"orientation", "turned upright as the file's EXIF says"},
                                        {"resize_shorter_side", resized_shorter_side(config.data)},
                                        {"resize_filter", "bilinear, antialiased, as Pillow's"},
                                        {"crop_middle", image_side(config.data)},
                                        {"color_order", "RGB"},
                                        {"input", "pixels / 255; the normalization is inside"},
                                        {"output", "logits; a softmax makes probabilities"}};
  return steps.dump();
}

std::map<std::string, std::string> metadata(const Config& config, const Classes& classes, const SafetensorsFile& file) {
  std::map<std::string, std::string> entries = {{"preprocessing", preprocessing(config)}, {"octet", version}};
  add_classes(classes, entries);
  for (const char* const key : {"commit", "sha256"})
    if (const auto found = file.metadata().find(key); found != file.metadata().end())
      entries[key == std::string("sha256") ? "weights_sha256" : key] = found->second;
  return entries;
}

int export_network(const ExportOptions& options, const Config& config, Transport& transport,
                   const std::string& weights) {
  REQUIRE_USAGE(transport.size() == 1, "start it without mpirun", "this command runs on one rank, not on ",
                transport.size());
  REQUIRE_USAGE(!task_of(config).objects, "name the run of a classifier", config.model.name,
                " is a detector, which has no form in a file yet");
  require_place_for(options.output, "--output");
  const FileFormat& format = file_format(options.format);
  const SafetensorsFile file = SafetensorsFile::open(weights);
  const Classes known = read_classes(file, weights);
  Trainer trainer(config, transport, false, nullptr, [&] {
    if (!options.images.empty()) return Datasets{nullptr, open_labelled_images(config, options.images, known)};
    return options.unchecked ? Datasets{nullptr, open_named_images(config, {}, known)}
                             : open_datasets(config, false, known);
  });
  trainer.load_weights(weights);
  const Classes classes = known.names.empty() ? classes_of(*trainer.datasets().test) : known;
  const NetworkFile network{format.form(trainer.integer_network()), metadata(config, classes, file)};
  const std::string content = format.write(network);
  const NetworkFile read = format.read(content, options.output);
  for (const std::string& note : network.network.notes) fmt::print("note: {}\n", note);
  if (!options.unchecked) check(options, trainer, read.network);
  write_output(options.output, content);
  fmt::print("wrote {}, {:.1f} MB, for {}\n", options.output, double(content.size()) / 1e6, format.runs_on);
  return 0;
}

}  // namespace

Run export_command(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  add_network(app, *options);
  app.add_option("--for", options->format, say("What will run the file: ", file_format_names()))->required();
  app.add_option("--output", options->output, "The file to write")->required();
  CLI::Option* const images = app.add_option(
      "--images", options->images, "A folder with a folder of images for each class, to check the file with them");
  app.add_option("--agreement", options->agreement,
                 "The file is written only if it and the trained network name the same class for so many percent of "
                 "the images")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  CLI::Option* const samples =
      app.add_option("--check-with", options->samples,
                     "A folder to write test images to, and what the file makes of them: images.npy, logits.npy, "
                     "codes/TENSOR.npy");
  app.add_flag("--unchecked", options->unchecked, "Read no images, and compare nothing")
      ->excludes(images)
      ->excludes(samples);
  return [options] {
    return run_with_network(*options, [&](const Config& config, Transport& transport, const std::string& weights) {
      return export_network(*options, config, transport, weights);
    });
  };
}

}  // namespace octet
