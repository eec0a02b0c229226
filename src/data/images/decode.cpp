#include "src/data/images/decode.h"

#include <algorithm>
#include <cstdio>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"

namespace octet {

ImageHeader read_header(FileBytes bytes, int64_t max_pixels) {
  if (bytes.empty()) throw BadImage(ImageFault::empty, "the file is empty");
  const ImageFormat* const format = format_of(bytes);
  if (format == nullptr) {
    std::string start;
    for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 4))) {
      char hex[4];
      snprintf(hex, sizeof hex, " %02X", byte);
      start += hex;
    }
    throw BadImage(ImageFault::other_format,
                   say("neither JPEG nor PNG nor another format that octet reads: it starts with the bytes", start));
  }
  ImageHeader header = format->header(bytes);
  header.format = format;
  if (header.width < 1 || header.height < 1)
    throw BadImage(ImageFault::damaged, say("the header says ", header.width, " x ", header.height));
  if (header.width > max_pixels / header.height)
    throw BadImage(ImageFault::too_large, say("the header says ", header.width, " x ", header.height,
                                              ", more than data.max_pixels: ", max_pixels));
  return header;
}

cv::Mat decode(FileBytes bytes, const ImageHeader& header, double scale, std::vector<std::string>* warnings) {
  return header.format->decode(bytes, header, scale, warnings);
}

cv::Mat upright(const cv::Mat& stored, int orientation) {
  constexpr int across = 1, down = 0, both = -1;  // how cv::flip mirrors
  cv::Mat turned = stored;
  if (orientation >= 5) cv::transpose(stored, turned);
  if (orientation == 1 || orientation == 5) return turned;
  cv::Mat result;
  const bool mirrors_both = orientation == 3 || orientation == 7;
  cv::flip(turned, result, mirrors_both ? both : orientation == 2 || orientation == 6 ? across : down);
  return result;
}

}  // namespace octet
