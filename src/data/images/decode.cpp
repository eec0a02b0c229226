#include "src/data/images/decode.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/base/error.h"
#include "src/data/images/image_format.h"
#include "src/data/images/raster.h"

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

Raster decode(FileBytes bytes, const ImageHeader& header, double scale, std::vector<std::string>* warnings) {
  return header.format->decode(bytes, header, scale, warnings);
}

// One picture after the other, so that no more than two are in memory: a photograph may take 100 MB.
Raster upright(Raster picture, int orientation) {
  if (orientation >= 5) picture = transposed(picture);
  if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7) picture = mirrored(picture);
  if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8) picture = turned_over(picture);
  return picture;
}

int64_t bytes_to_decode(const ImageHeader& header, double scale) {
  const double part = header.format->scales ? eighths(scale) / 8.0 : 1;
  const auto pixels =
      static_cast<int64_t>(std::ceil(part * double(header.width)) * std::ceil(part * double(header.height)));
  return static_cast<int64_t>(header.decoder_bytes) + 3 * pixels * (header.orientation == 1 ? 1 : 2);
}

}  // namespace octet
