#include "src/data/exif.h"

#include <algorithm>
#include <string_view>

namespace octet {
namespace {

using Bytes = std::span<const uint8_t>;

// Numbers of two or four bytes. Beyond the end all bytes are 0.
struct Numbers {
  Bytes bytes;
  bool big_endian;
  uint64_t of(uint64_t at, int count) const {
    uint64_t number = 0;
    for (int i = 0; i < count; ++i) {
      const uint64_t byte = at + i < bytes.size() ? bytes[at + i] : 0;
      number |= byte << 8 * (big_endian ? count - 1 - i : i);
    }
    return number;
  }
};

bool begins_with(Bytes bytes, std::string_view start) {
  return bytes.size() >= start.size() &&
         std::equal(start.begin(), start.end(), bytes.begin(), [](char c, uint8_t byte) { return uint8_t(c) == byte; });
}

}  // namespace

TiffFields tiff_fields(Bytes bytes) {
  constexpr uint64_t tag_width = 0x100, tag_height = 0x101, tag_orientation = 0x112, type_short = 3, type_long = 4;
  TiffFields fields;
  const bool big = begins_with(bytes, {"MM\0*", 4});
  if (!big && !begins_with(bytes, {"II*\0", 4})) return fields;
  const Numbers numbers{bytes, big};
  const uint64_t list = numbers.of(4, 4), count = numbers.of(list, 2);
  for (uint64_t at = list + 2; at < list + 2 + 12 * count && at + 12 <= bytes.size(); at += 12) {
    const uint64_t tag = numbers.of(at, 2), type = numbers.of(at + 2, 2);
    if (type != type_short && type != type_long) continue;
    const auto value = static_cast<int64_t>(numbers.of(at + 8, type == type_short ? 2 : 4));
    if (tag == tag_width) fields.width = value;
    if (tag == tag_height) fields.height = value;
    if (tag == tag_orientation && value >= 1 && value <= 8) fields.orientation = static_cast<int>(value);
  }
  return fields;
}

int jpeg_orientation(Bytes file) {
  constexpr uint64_t start_of_scan = 0xFFDA, end_of_image = 0xFFD9, application_1 = 0xFFE1;
  constexpr std::string_view mark{"Exif\0\0", 6};
  const Numbers numbers{file, true};
  for (uint64_t at = 2; at + 4 <= file.size();) {
    const uint64_t marker = numbers.of(at, 2), length = numbers.of(at + 2, 2);
    if (marker < 0xFF00 || marker == start_of_scan || marker == end_of_image) break;
    if (marker == 0xFFFF) {  // a marker may have any number of bytes 0xFF before it
      ++at;
      continue;
    }
    if (at + 2 + length > file.size() || length < 2) break;
    const Bytes segment = file.subspan(at + 4, length - 2);
    if (marker == application_1 && begins_with(segment, mark))
      return tiff_fields(segment.subspan(mark.size())).orientation;
    at += 2 + length;
  }
  return 1;
}

int png_orientation(Bytes file) {
  const Numbers numbers{file, true};
  for (uint64_t at = 8; at + 12 <= file.size();) {
    const uint64_t length = numbers.of(at, 4);
    if (length > file.size() - at - 12) break;
    if (begins_with(file.subspan(at + 4), "eXIf")) return tiff_fields(file.subspan(at + 8, length)).orientation;
    at += 12 + length;
  }
  return 1;
}

}  // namespace octet
