// `octet export`: a trained network as a file of integers that other programs run.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/data/sources/labelled_images.h"
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

constexpr char upright[] = "turned upright as the file's EXIF says";

struct ExportOptions : NamedNetwork {
  std::string format, output, images, samples;
  double agreement = 99;
  bool unchecked = false, example = false;
};

// In how many percent of what octet says the file says it, too: the class of an image, or of a detector's figure.
double agreement(const Trainer::Comparison& of, const Task& task) {
  if (of.images > 0) {
    const double same = 100 * double(of.same) / double(of.images);
    fmt::print("both name the same class for {} of {} images ({:.2f} %)\n", of.same, of.images, same);
    return same;
  }
  const auto figure = [&](const Judge& judge) {
    return std::ranges::find(judge.figures(), task.main_figure, &Scalar::name)->value;
  };
  const double own = figure(*of.training);  // 0 or undefined: there is nothing to reach
  return own > 0 ? std::min(100.0, 100 * figure(*of.integers) / own) : 100;
}

// Files of an earlier check would stand beside those of this one.
void require_new_folder(const std::string& samples) {
  std::error_code unknown;
  REQUIRE_USAGE(samples.empty() || !std::filesystem::exists(samples, unknown) ||
                    (std::filesystem::is_directory(samples, unknown) && std::filesystem::is_empty(samples, unknown)),
                "name another folder, or remove it", "--check-with ", samples, ": there is something already");
}

// The file's network and the training's kernels on the test images.
void check(const ExportOptions& options, const Task& task, Trainer& trainer, const IntegerNetwork& read,
           const std::vector<std::string>& said) {
  ExportSamples samples(read);
  const Trainer::Comparison comparison =
      trainer.compare_integers(&read, [&](const Batch& batch, const Answers& answers) {
        if (!options.samples.empty()) samples.take(trainer, batch, answers);
      });
  fmt::print("{:<12} {}\n{:<12} {}\n", "the file", show(comparison.integers->figures(), 2, true, "  "), "octet eval",
             show(comparison.training->figures(), 2, true, "  "));
  const double same = agreement(comparison, task);
  for (const std::string& note : comparison.notes)
    if (std::ranges::count(said, note) == 0) fmt::print("note: {}\n", note);
  const std::string what = read.detector ? say("reaches ", fmt::format("{:.2f}", same), " % of the trained network's ",
                                               display_of(task.main_figure).label)
                                         : say("and the trained network name the same class for ",
                                               fmt::format("{:.2f}", same), " % of the images");
  REQUIRE_USAGE(
      same >= options.agreement,
      "judge more images with --images, lower --agreement, or set policy.quantize_first and policy.quantize_last in "
      "the training",
      "the file ", what, ", and not ", options.agreement, " %; nothing was written");
  if (!options.samples.empty()) samples.write(options.samples);
}

nlohmann::ordered_json steps_of_objects(const Config& config, const IntegerNetwork& network, const FileFormat& format) {
  const Shape& canvas = network.tensors.front().shape;
  const Normalization& pixels = network.pixels;
  std::vector<float> zero;
  for (int64_t channel = 0; channel < 3; ++channel)
    zero.push_back(-pixels.shift(channel) / pixels.scale(channel) / 255);
  return {{"orientation", config.data.turn_upright == "true" ? upright : "as stored"},
          {"resize_shorter_side", config.data.short_side},
          {"resize_longer_side", config.data.long_side},
          {"resize_limits", "whichever is smaller, 0: none, and further until the canvas holds it; sides rounded down"},
          {"resize_filter",
           "a JPEG is decoded at the least eighth that is large enough; then bilinear, without antialiasing"},
          {"canvas", {canvas.h, canvas.w}},
          {"place", "at the left and the top"},
          {"fill", zero},
          {"color_order", "RGB"},
          {"input", format.takes},
          {"output", "boxes (left, top, right, bottom) in pixels of the canvas, scores, labels; score 0: no more"}};
}

// How an image file becomes the network's input, for programs and people.
std::string preprocessing(const Config& config, const IntegerNetwork& network, const FileFormat& format) {
  if (network.detector) return steps_of_objects(config, network, format).dump();
  const nlohmann::ordered_json steps = {{"orientation", upright},
                                        {"resize_shorter_side", resized_shorter_side(config.data)},
                                        {"resize_filter", "bilinear, antialiased, as Pillow's"},
                                        {"crop_middle", image_side(config.data)},
                                        {"color_order", "RGB"},
                                        {"input", format.takes},
                                        {"output", format.gives}};
  return steps.dump();
}

std::map<std::string, std::string> metadata(const Config& config, const IntegerNetwork& network, const Classes& classes,
                                            const SafetensorsFile& file, const FileFormat& format) {
  std::map<std::string, std::string> entries = {{"preprocessing", preprocessing(config, network, format)},
                                                {"octet", version}};
  add_classes(classes, entries);
  for (const char* const key : {"commit", "sha256"})
    if (const auto found = file.metadata().find(key); found != file.metadata().end())
      entries[key == std::string("sha256") ? "weights_sha256" : key] = found->second;
  return entries;
}

// Where the files of an export go: a name, to which each adds its ending.
std::string base_of(const ExportOptions& options, const FileFormat& format) {
  std::string base = options.output;
  if (base.ends_with(format.ending))
    base.resize(base.size() - std::strlen(format.ending));
  else
    REQUIRE_USAGE(!format.needs_ending, say("name a file that ends with ", format.ending), "--output ", options.output,
                  ": programs know a file for ", format.runs_on, " by the ending of its name");
  return base;
}

// The files of an export that the user wants.
std::vector<NamedText> files_of(const ExportOptions& options, const FileFormat& format, const NetworkFile& network,
                                const std::string& base) {
  std::vector<NamedText> files = format.write(network, std::filesystem::path(base).filename().string());
  if (!options.example) std::erase_if(files, [](const NamedText& of) { return of.ending == example_ending; });
  return files;
}

// A source file of the user's own may have the name.
void require_places(const std::vector<NamedText>& files, const std::string& base) {
  for (const NamedText& of : files) {
    const std::string file = base + of.ending;
    require_place_for(file, "--output", /*in_order=*/files.size() == 1);
    if (files.size() == 1) continue;
    const std::string there = read_if_there(file);
    // Examples are there to be changed. Other files begin with their name and the mark.
    const bool own = of.ending == example_ending
                         ? there == of.text
                         : there.starts_with(of.text.substr(0, of.text.find(c_mark) + std::strlen(c_mark)));
    std::error_code unknown;
    REQUIRE_USAGE(own || !std::filesystem::exists(file, unknown), "name another one, or remove it", file,
                  " is there, and is not what octet wrote");
  }
}

void write(const std::vector<NamedText>& files, const std::string& base) {
  if (files.size() == 1) return write_output(base + files[0].ending, files[0].text);
  std::vector<FileText> together;
  for (const NamedText& of : files) together.push_back({behind_links(base + of.ending), of.text});
  write_durably(together);
}

std::string size_text(size_t bytes) {
  return bytes < 100'000 ? fmt::format("{:.1f} kB", double(bytes) / 1e3)
                         : fmt::format("{:.1f} MB", double(bytes) / 1e6);
}

void require_one_size(const Dataset& data) {
  if (data.canvases() < 2) return;
  const ImageShape last = data.canvas_shape(data.canvases() - 1);
  REQUIRE_USAGE(false,
                say("name one canvas, for example --set 'data.canvas_heights=[", last.height,
                    "]' --set 'data.canvas_widths=[", last.width, "]'"),
                "the recipe has ", data.canvases(), " canvases, and a file is of one size");
}

int export_network(const ExportOptions& options, const Config& config, Transport& transport,
                   const std::string& weights) {
  REQUIRE_USAGE(transport.size() == 1, "start it without mpirun", "this command runs on one rank, not on ",
                transport.size());
  const Task& task = task_of(config);
  require_place_for(options.output, "--output");
  const FileFormat& format = file_format(options.format);
  const std::string base = base_of(options, format);
  REQUIRE_USAGE(!options.example || !format.needs_ending, "leave --example out, or export --for c",
                "--example: a file for ", format.runs_on, " has no example");
  require_new_folder(options.samples);
  const SafetensorsFile file = SafetensorsFile::open(weights);
  const Classes known = read_classes(file, weights);
  Trainer trainer(config, transport, false, nullptr, [&] {
    if (!options.images.empty()) return Datasets{nullptr, open_labelled_images(config, options.images, known).images};
    return options.unchecked ? Datasets{nullptr, open_named_images(config, {}, known)}
                             : open_datasets(config, false, known);
  });
  require_one_size(*trainer.datasets().test);
  trainer.load_weights(weights);
  const Classes classes = known.names.empty() ? classes_of(*trainer.datasets().test) : known;
  const IntegerNetwork trained = trainer.integer_network();
  const NetworkFile network{format.form(trained), metadata(config, trained, classes, file, format)};
  const std::vector<NamedText> files = files_of(options, format, network, base);
  require_places(files, base);
  const IntegerNetwork read =
      format.read ? format.read(files[0].text, base + files[0].ending).network : network.network;
  for (const std::string& note : network.network.notes) fmt::print("note: {}\n", note);
  if (!options.unchecked) check(options, task, trainer, read, network.network.notes);
  write(files, base);
  for (const NamedText& of : files)
    fmt::print("wrote {}, {}, for {}\n", base + of.ending, size_text(of.text.size()), format.runs_on);
  return 0;
}

}  // namespace

Run export_command(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  add_network(app, *options);
  app.add_option("--for", options->format, "What will run the file")
      ->type_name(say("{", file_format_names(), "}"))
      ->required();
  app.add_option("--output", options->output, "The file to write; for c its name, to which .c and .h are added")
      ->type_name("FILE")
      ->required();
  CLI::Option* const images =
      app.add_option("--images", options->images,
                     "A folder of images with labels, as octet eval takes it, to check the file with them")
          ->type_name("DIR");
  app.add_option("--agreement", options->agreement,
                 "The file is written only if it and the trained network name the same class for so many percent of "
                 "the images")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  CLI::Option* const samples =
      app.add_option("--check-with", options->samples,
                     "A folder to write test images to, and what the file makes of them: images.npy, logits.npy, "
                     "codes/TENSOR.npy")
          ->type_name("DIR");
  app.add_flag("--example", options->example, "For c: also a program that classifies an image from standard input");
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
