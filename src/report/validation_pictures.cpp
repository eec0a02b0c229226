#include "src/report/validation_pictures.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

#include "src/data/decode.h"
#include "src/data/detection_set.h"
#include "src/report/detection_boxes.h"
#include "src/report/draw_truth.h"
#include "src/report/picture_address.h"

namespace octet {
namespace {

constexpr int longest_side = 640;  // of an image on the page, in pixels

// The image at a size for the page, with its boxes.
std::string drawn(const cv::Mat& image, std::vector<DrawnBox> boxes) {
  const double scale = std::min(1.0, 1.0 * longest_side / std::max(image.cols, image.rows));
  cv::Mat small = image;
  if (scale < 1) cv::resize(image, small, {}, scale, scale, cv::INTER_AREA);
  for (DrawnBox& box : boxes)
    box.box = {box.box.x * scale, box.box.y * scale, box.box.width * scale, box.box.height * scale};
  return jpeg_address(with_boxes(small, boxes));
}

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
      pictures.push_back({image.name, drawn(pixels, boxes_of(std::span(found), data->class_names(), score)),
                          drawn(pixels, boxes_of(image, data->class_names()))});
    } catch (const BadImage&) {  // the training has warned of it
    }
  }
  return pictures;
}

}  // namespace octet
