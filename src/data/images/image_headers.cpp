// The headers of formats for which OpenCV gives no size before the pixels, and EXIF data.
#include <cctype>
#include <cstdlib>

#include "src/data/images/image_format.h"

namespace octet {

TiffFields tiff_fields(FileBytes bytes) {
  constexpr std::string_view mark{"Exif\0\0", 6};
  constexpr uint64_t tag_width = 0x100, tag_height = 0x101, tag_orientation = 0x112, type_short = 3, type_long = 4;
  if (starts_with(bytes, mark)) bytes = bytes.subspan(mark.size());
  TiffFields fields;
  const bool big = starts_with(bytes, {"MM\0*", 4});
  if (!big && !starts_with(bytes, {"II*\0", 4})) return fields;
  const auto number = [&](uint64_t at, int count) {
    return big ? big_endian(bytes, at, count) : little_endian(bytes, at, count);
  };
  const uint64_t list = number(4, 4), count = number(list, 2);
  for (uint64_t at = list + 2; at < list + 2 + 12 * count && at + 12 <= bytes.size(); at += 12) {
    const uint64_t tag = number(at, 2), type = number(at + 2, 2);
    if (type != type_short && type != type_long) continue;
    const auto value = static_cast<int64_t>(number(at + 8, type == type_short ? 2 : 4));
    if (tag == tag_width) fields.width = value;
    if (tag == tag_height) fields.height = value;
    if (tag == tag_orientation && value >= 1 && value <= 8) fields.orientation = static_cast<int>(value);
  }
  return fields;
}

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
