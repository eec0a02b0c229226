#include "src/report/pictures/detection_boxes.h"

#include <fmt/format.h>

namespace octet {

std::vector<DrawnBox> boxes_of(const AnnotatedImage& image, std::span<const std::string> classes) {
  std::vector<DrawnBox> boxes;
  for (const Object& object : image.objects) {
    std::string text = classes[static_cast<size_t>(object.label)];
    if (object.crowd) text += " (crowd)";
    if (object.difficult) text += " (difficult)";
    boxes.push_back({object.box, object.label, text, object.crowd || object.difficult});
  }
  return boxes;
}

std::vector<DrawnBox> boxes_of(std::span<const Detection> detections, std::span<const std::string> classes,
                               double least) {
  std::vector<DrawnBox> boxes;
  for (const Detection& found : detections)
    if (found.score >= least)
      boxes.push_back(
          {found.box, found.label, fmt::format("{} {:.2f}", classes[static_cast<size_t>(found.label)], found.score)});
  return boxes;
}

}  // namespace octet
