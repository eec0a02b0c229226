// Formats that OpenCV decodes, in a build without its decoders.
#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {

cv::Mat decode_by_opencv(FileBytes, const ImageHeader& header, double, std::vector<std::string>*) {
  throw BadImage(ImageFault::other_format,
                 say("a ", header.format->name, " file, which this build of octet does not ",
                     "read; convert it to PNG or JPEG, or build with OCTET_OPENCV_CODECS=ON"));
}

}  // namespace octet
