#include "src/data/images/exif.h"

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

}  // namespace octet
