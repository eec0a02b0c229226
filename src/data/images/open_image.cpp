#include "src/data/images/open_image.h"

#include <algorithm>

#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"

namespace octet {

ImageSize size_of(const ImageHeader& header, View view) {
  const bool turned = view == View::upright && header.orientation >= 5;
  return turned ? ImageSize{header.width, header.height} : ImageSize{header.height, header.width};
}

ImageHeader header_of(const std::filesystem::path& file, int64_t max_pixels) {
  const int64_t most = most_bytes(max_pixels);
  for (const int64_t count : {1 << 14, 1 << 17}) {  // bytes of most headers, and of those with a small picture
    const std::vector<uint8_t> start = read_image_file(file, most, count);
    const ImageFormat* const format = format_of(start);
    if (format == nullptr || format->header != jpeg_header) break;  // the orientation may come after the pixels
    try {
      return read_header(start, max_pixels);
    } catch (const BadImage&) {  // a longer header, or a bad one
    }
  }
  return read_header(read_image_file(file, most), max_pixels);
}

int64_t bytes_to_read(const std::filesystem::path& file, int64_t max_pixels,
                      const std::function<double(ImageSize)>& scale, int64_t side) {
  try {
    const ImageHeader header = header_of(file, max_pixels);
    std::error_code failed;
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file, failed));
    // One direction is resized after the other.
    const int64_t halfway = 3 * std::max(header.width, header.height) * side;
    return (failed ? 0 : bytes) + bytes_to_decode(header, scale({header.height, header.width})) + halfway;
  } catch (const BadImage&) {
    return 0;
  }
}

ImageFile::ImageFile(const std::filesystem::path& file, int64_t max_pixels)
    : bytes_(std::make_shared<const std::vector<uint8_t>>(read_image_file(file, most_bytes(max_pixels)))),
      header_(read_header(*bytes_, max_pixels)) {}

OpenedImage ImageFile::seen(View view) const {
  const int orientation = view == View::upright ? header_.orientation : 1;
  return {size_of(header_, view), [bytes = bytes_, header = header_, orientation](double scale) {
            return upright(decode(*bytes, header, scale), orientation);
          }};
}

}  // namespace octet
