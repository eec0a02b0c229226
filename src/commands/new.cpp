// `octet new`: a recipe for a folder of images, of classes or with boxes.
#include <fmt/format.h>

#include <filesystem>

#include "kernels/base/command_line.h"
#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/commands/command.h"
#include "src/config/path_kind.h"
#include "src/report/check/box_advice.h"
#include "src/report/check/recipe_advice.h"
#include "src/train/host_limits.h"
#include "src/train/settle.h"
#include "src/train/shares.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

struct NewOptions {
  std::string folder, output, weights;
};

std::string default_output(const std::string& folder) {
  const fs::path path = fs::weakly_canonical(folder);
  return path.filename().string() + ".yaml";
}

void print_bad_images(const FolderFacts& facts, const std::string& output) {
  constexpr size_t most = 20;
  if (facts.bad.empty()) return;
  fmt::print("\n{} of {} images cannot be read:\n", facts.bad.size(), facts.examined);
  for (size_t i = 0; i < std::min(most, facts.bad.size()); ++i) fmt::print("  {}\n", printable(facts.bad[i]));
  if (facts.bad.size() > most) fmt::print("  and {} more\n", facts.bad.size() - most);
  fmt::print(
      "A training skips them, as data.bad_images: skip says in the recipe. To train with them, repair them and remove "
      "that line.\nAll bad images: octet check {}\n",
      output);
}

// Takes the time of the recipe, writes it and prints it. what: "300 images of 4 classes".
void finish(const std::string& output, const std::vector<Choice>& choices, Config config, const std::string& what,
            int cores) {
  config.data.bad_images = "skip";  // to take the time; the recipe says what a training does
  const double seconds = seconds_of_epoch(config, *make_self_transport()) * double(config.train.epochs);
  const std::string time = fmt::format("about {} on {} cores", text_of_time(seconds), cores);
  write_durably(output, recipe_text(choices, fmt::format("Written by `octet new` for {}; takes {}.", what, time)));
  for (const Choice& choice : choices)
    fmt::print("{:<24} {:<28} {}\n", choice.key, printable(choice.value), printable(choice.reason));
  fmt::print("\n{}: training takes {}\n", output, time);
}

int write_recipe(const NewOptions& options) {
  const std::string output = options.output.empty() ? default_output(options.folder) : options.output;
  REQUIRE_USAGE(!fs::exists(output), "name another file with --output, or remove it", output, " exists already");
  REQUIRE_USAGE(fs::is_directory(options.folder), "name a folder of images", options.folder, " is ",
                name_of(kind_of_path(options.folder)), ", not a folder of images");
  require_place_for(output, "--output", /*in_order=*/false);
  const int cores = JobShares(*make_self_transport(), 0).threads();
  const int64_t memory = host_limits().memory_left / 2;
  if (const std::optional<BoxFacts> boxes = look_at_boxes(options.folder, cores)) {
    const std::vector<Choice> choices = choose_detector(*boxes, options.weights, memory, cores);
    const auto images = int64_t(boxes->train.images.size()) + boxes->test;
    finish(output, choices, parse_config(recipe_text(choices, ""), output, {}),
           fmt::format("{} images with boxes of {} classes", images, boxes->train.classes.size()), cores);
    fmt::print("next: octet check {}, octet draw {} --truth --output boxes, octet train {}\n", shell_word(output),
               shell_word(output), shell_word(output));
    return 0;
  }
  const FolderFacts facts = look_at_folder(options.folder, cores);
  const std::vector<Choice> choices = choose_recipe(facts, options.weights, memory, cores);
  finish(output, choices, parse_config(recipe_text(choices, ""), output, {}),
         fmt::format("{} images of {} classes", facts.train + facts.test, facts.classes), cores);
  print_bad_images(facts, output);
  fmt::print("next: octet check {0}, octet train {0}\n", shell_word(output));
  return 0;
}

}  // namespace

Run new_command(CLI::App& app) {
  const auto options = std::make_shared<NewOptions>();
  app.add_option(
         "folder", options->folder,
         "A folder of image folders, one for each class, or with train/ and val/; or a data set with boxes in the "
         "form of YOLO (data.yaml), COCO or PASCAL VOC")
      ->type_name("DIR")
      ->required();
  app.add_option("--output", options->output, "The recipe, a YAML file; without it the folder's name in this directory")
      ->type_name("FILE");
  app.add_option(
         "--weights", options->weights,
         "A safetensors file of a trained network to begin with: octet's, torchvision's or timm's; with boxes: of a "
         "backbone")
      ->type_name("FILE");
  return [options] { return write_recipe(*options); };
}

}  // namespace octet
