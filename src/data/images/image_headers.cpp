// The headers of formats for which OpenCV gives no size before the pixels.
#include <cctype>
#include <cstdlib>

#include "src/data/images/exif.h"
#include "src/data/images/image_format.h"

namespace octet {

ImageHeader bmp_header(FileBytes file) {
  constexpr uint64_t old_header = 12;  // with sides of two bytes
  if (little_endian(file, 14, 4) == old_header)
    return {.width = static_cast<int64_t>(little_endian(file, 18, 2)),
            .height = static_cast<int64_t>(little_endian(file, 20, 2))};
  const auto height = static_cast<int32_t>(little_endian(file, 22, 4));  // negative: rows from top to bottom
  return {.width = static_cast<int32_t>(little_endian(file, 18, 4)), .height = std::abs(int64_t{height})};
}

// RIFF chunks: name, length, data, padded to an even length.
// https://developers.google.com/speed/webp/docs/riff_container
ImageHeader webp_header(FileBytes file) {
  constexpr uint64_t animated = 2, mask = 0x3FFF;
  ImageHeader header;
  const FileBytes first = file.subspan(12);
  if (starts_with(first, "VP8 ")) {
    header.width = static_cast<int64_t>(little_endian(file, 26, 2) & mask);
    header.height = static_cast<int64_t>(little_endian(file, 28, 2) & mask);
  } else if (starts_with(first, "VP8L")) {
    const uint64_t sides = little_endian(file, 21, 4);
    header.width = static_cast<int64_t>(1 + (sides & mask));
    header.height = static_cast<int64_t>(1 + (sides >> 14 & mask));
  } else if (starts_with(first, "VP8X")) {
    if (little_endian(file, 20, 1) & animated)
      throw BadImage(ImageFault::other_format, "an animated WebP file, which octet does not read");
    header.width = static_cast<int64_t>(1 + little_endian(file, 24, 3));
    header.height = static_cast<int64_t>(1 + little_endian(file, 27, 3));
  }
  for (uint64_t at = 12; at + 8 <= file.size();) {
    const uint64_t length = little_endian(file, at + 4, 4), data = at + 8;
    if (length > file.size() - data) break;
    if (starts_with(file.subspan(at), "EXIF")) header.orientation = tiff_fields(file.subspan(data, length)).orientation;
    at = data + length + length % 2;
  }
  return header;
}

// OpenCV itself turns TIFF files upright.
ImageHeader tiff_header(FileBytes file) {
  const TiffFields fields = tiff_fields(file);
  const bool turned = fields.orientation >= 5;
  return {.width = turned ? fields.height : fields.width, .height = turned ? fields.width : fields.height};
}

// Two numbers in decimal, after white space and comments.
ImageHeader pnm_header(FileBytes file) {
  uint64_t at = 2;
  const auto number = [&] {
    while (at < file.size() && (isspace(file[at]) || file[at] == '#')) {
      if (file[at] == '#')
        while (at < file.size() && file[at] != '\n') ++at;
      else
        ++at;
    }
    int64_t value = 0;
    for (; at < file.size() && isdigit(file[at]) && value < (1 << 30); ++at) value = 10 * value + (file[at] - '0');
    return value;
  };
  const int64_t width = number();
  return {.width = width, .height = number()};
}

}  // namespace octet
