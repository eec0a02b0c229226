// Formats that OpenCV decodes.
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {

cv::Mat decode_by_opencv(FileBytes file, const ImageHeader& header, double, std::vector<std::string>*) {
  const std::string name(header.format->name);
  cv::Mat image;
  try {
    const cv::Mat input(1, static_cast<int>(file.size()), CV_8UC1, const_cast<uint8_t*>(file.data()));
    image = cv::imdecode(input, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
  } catch (const cv::Exception& exception) {
    throw BadImage(ImageFault::damaged, say("bad ", name, ": ", exception.err));
  }
  if (image.empty()) throw BadImage(ImageFault::damaged, say("bad ", name, " data: damaged, or it ends too early"));
  if (image.cols != header.width || image.rows != header.height)
    throw BadImage(ImageFault::damaged, say("bad ", name, " data: ", image.cols, " x ", image.rows,
                                            " pixels, but the header says ", header.width, " x ", header.height));
  cv::cvtColor(image, image, cv::COLOR_BGR2RGB);
  return image;
}

}  // namespace octet
