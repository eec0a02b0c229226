#include "src/report/pictures/draw_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/data/images/decode.h"
#include "src/data/images/raster.h"
#include "src/data/sources/detection_set.h"
#include "src/report/pictures/draw_boxes.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

Raster drawn_file(const DetectionSet& data, int64_t index) {
  const Annotations& annotations = *data.annotations();
  return with_boxes(data.picture(index), boxes_of(annotations.images[static_cast<size_t>(index)], annotations.classes));
}

Raster drawn_input(const DetectionSet& data, int64_t index, uint64_t seed) {
  const ImageShape shape = data.canvas_shape(data.canvas(index));
  const Raster pixels(static_cast<int>(shape.height), static_cast<int>(shape.width), pixel_channels);
  Truth truth;
  if (!data.read_with_truth(index, true, seed, 0, pixels.data, truth)) return {};
  std::vector<DrawnBox> boxes;
  for (const auto& [box, label] : truth.objects)
    boxes.push_back(
        {{box.x1, box.y1, box.width(), box.height()}, label, data.annotations()->classes[static_cast<size_t>(label)]});
  return with_boxes(rgb_of(pixels), boxes);
}

}  // namespace

std::string picture_path(const std::string& folder, int64_t index, const std::string& image) {
  std::string stem = fs::path(image).stem().string();
  std::ranges::replace_if(
      stem, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return (fs::path(folder) / fmt::format("{:06}-{}.png", index, stem)).string();
}

void make_output(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  REQUIRE_USAGE(!failed, "choose a directory that can be written with --output", "cannot create ", folder, ": ",
                failed.message());
}

std::vector<int64_t> spread(int64_t size, int64_t count) {
  std::vector<int64_t> chosen(static_cast<size_t>(std::min(count, size)));
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = static_cast<int64_t>(i) * size / static_cast<int64_t>(chosen.size());
  return chosen;
}

int64_t draw_truth(const Config& config, const DrawOptions& options) {
  const Datasets sets = open_datasets(config, options.train);
  const auto* data = dynamic_cast<const DetectionSet*>(options.train ? sets.train.get() : sets.test.get());
  REQUIRE_USAGE(data, "give a recipe for detection, for example with data.name: shapes_detection", "data.name is '",
                config.data.name, "', whose images have no boxes to draw");
  make_output(options.output);
  BadImages bad(config.data);
  int64_t drawn = 0;
  for (const int64_t index : spread(data->size(), options.count)) {
    const std::string& name = data->annotations()->images[static_cast<size_t>(index)].name;
    try {
      const Raster picture =
          options.augmented ? drawn_input(*data, index, static_cast<uint64_t>(config.seed)) : drawn_file(*data, index);
      if (picture.empty()) continue;  // a bad image, of which the data set has warned
      write_picture(picture_path(options.output, index, name), picture);
      ++drawn;
    } catch (const BadImage& error) {
      bad.add(index, name, error);
    }
  }
  return drawn;
}

}  // namespace octet
