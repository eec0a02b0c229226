// `octet make`: data sets that octet draws, as files.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "src/commands/command.h"
#include "src/data/drawn/make_shapes.h"

namespace octet {

Run make_command(CLI::App& app) {
  struct Options {
    std::string what, directory;
    int64_t samples = 2048;
    int side = 128;
  };
  const auto options = std::make_shared<Options>();
  app.add_option("what", options->what, "shapes: pictures of shapes with their boxes, as data.name: shapes_detection")
      ->required()
      ->check(CLI::IsMember({"shapes"}));
  app.add_option("directory", options->directory, "Gets train2017/, val2017/ and annotations/; must be empty or absent")
      ->type_name("DIR")
      ->required();
  app.add_option("--samples", options->samples, "Number of training images; an eighth of it for validation")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("--image-size", options->side, "Height and width in pixels")
      ->check(CLI::Range(64, 4096))
      ->check([](const std::string& size) { return std::stoll(size) % 32 == 0 ? "" : "Give a multiple of 32."; })
      ->capture_default_str();
  return [options] {
    const bool live = isatty(STDOUT_FILENO) != 0;
    int64_t images = 0;
    const auto progress = [&](int64_t written, int64_t all) {
      images = written;
      if (live && (written % 16 == 0 || written == all)) {
        fmt::print("\r{} of {} images", written, all);
        std::fflush(stdout);
      }
    };
    make_shapes(options->directory, options->samples, options->side, progress);
    fmt::print("{}{} images with their boxes in {}\n", live ? "\n" : "", images, options->directory);
    return 0;
  };
}

}  // namespace octet
