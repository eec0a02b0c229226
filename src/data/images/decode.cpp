#include "src/data/images/decode.h"

#include <algorithm>
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

Raster upright(const Raster& stored, int orientation) {
  const Raster turned = orientation >= 5 ? transposed(stored) : stored;
  if (orientation == 1 || orientation == 5) return turned;
  if (orientation == 2 || orientation == 6) return mirrored(turned);
  return orientation == 3 || orientation == 7 ? turned_over(mirrored(turned)) : turned_over(turned);
}

}  // namespace octet
