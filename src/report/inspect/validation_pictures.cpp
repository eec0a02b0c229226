#include "src/report/inspect/validation_pictures.h"

#include <algorithm>

#include "src/data/images/decode.h"
#include "src/data/sources/detection_set.h"
#include "src/report/pictures/detection_boxes.h"
#include "src/report/pictures/draw_truth.h"

namespace octet {
namespace {

constexpr int longest_side = 640;  // of an image on the page, in pixels

}  // namespace

std::vector<ValidationPicture> validation_pictures(const Config& config, std::span<const Detection> detections,
                                                   int64_t count, double score) {
  const Datasets sets = open_datasets(config, false);
  const auto* const data = dynamic_cast<const DetectionSet*>(sets.test.get());
  if (data == nullptr) return {};
  std::vector<int64_t> shown;
  for (int64_t index = 0; index < data->size(); ++index)
    if (!data->annotations()->images[static_cast<size_t>(index)].objects.empty()) shown.push_back(index);
  std::vector<ValidationPicture> pictures;
  for (const int64_t chosen : spread(static_cast<int64_t>(shown.size()), count)) {
    const int64_t index = shown[static_cast<size_t>(chosen)];
    const AnnotatedImage& image = data->annotations()->images[static_cast<size_t>(index)];
    const auto found = std::ranges::equal_range(detections, index, {}, &Detection::image);
    try {
      const cv::Mat pixels = data->picture(index);
      pictures.push_back(
          {image.name,
           page_picture(pixels, boxes_of(std::span(found.begin(), found.end()), data->class_names(), score),
                        longest_side),
           page_picture(pixels, boxes_of(image, data->class_names()), longest_side)});
    } catch (const BadImage&) {  // the training has warned of it
    }
  }
  return pictures;
}

}  // namespace octet
