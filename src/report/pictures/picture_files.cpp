#include "src/report/pictures/picture_files.h"

#include <algorithm>

#include "src/data/images/decode.h"
#include "src/data/images/open_image.h"
#include "src/report/pictures/detection_boxes.h"

namespace octet {

std::string picture_of_file(const Predictor& network, const std::string& file, const Prediction& prediction, int side) {
  const bool objects = network.task().objects;
  try {
    // Boxes are in the frame of the stored pixels.
    const OpenedImage opened =
        open_image(file, network.config().data.max_pixels, objects ? View::stored : View::upright);
    const double scale = double(side) / double(std::max(opened.size.width, opened.size.height));
    const cv::Mat image = opened.decode(objects ? 1 : std::min(1.0, scale));
    return page_picture(image, boxes_of(prediction.answers.detections, network.classes().names, 0), side);
  } catch (const BadImage&) {
    return {};
  }
}

}  // namespace octet
