// Images of a test set with detections and truth, for a page.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/objects.h"

namespace octet {

struct ValidationPicture {
  std::string name;               // of the image
  std::string prediction, truth;  // JPEG files as "data:" addresses
};
// `count` images that have objects, evenly spread over the test set. detections: in the order of the images. score: of
// the least detection that is drawn. Images that cannot be read are left out. Empty in a build without OpenCV.
std::vector<ValidationPicture> validation_pictures(const Config&, std::span<const Detection> detections, int64_t count,
                                                   double score);

}  // namespace octet
