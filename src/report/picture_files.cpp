#include "src/report/picture_files.h"

#include <algorithm>

#include "src/data/decode.h"
#include "src/data/folder_index.h"
#include "src/report/detection_boxes.h"

namespace octet {

std::string picture_of_file(const Predictor& network, const std::string& file, const Prediction& prediction, int side) {
  try {
    const int64_t most = network.config().data.max_pixels;
    const std::vector<uint8_t> bytes = read_image_file(file, 8 * most + (1 << 20));
    const ImageHeader header = read_header(bytes, most);
    const cv::Mat image =
        decode(bytes, header,
               network.detects() ? 1 : std::min(1.0, double(side) / double(std::max(header.width, header.height))));
    return page_picture(image, boxes_of(prediction.objects, network.classes().names, 0), side);
  } catch (const BadImage&) {
    return {};
  }
}

}  // namespace octet
