// How a picture is to be turned, as EXIF and XMP say.
#include <cctype>

#include "src/data/images/image_format.h"

namespace octet {

TiffFields tiff_fields(FileBytes bytes) {
  constexpr std::string_view mark{"Exif\0\0", 6};
  constexpr uint64_t tag_width = 0x100, tag_height = 0x101, tag_orientation = 0x112, type_short = 3, type_long = 4;
  constexpr uint64_t tag_xmp = 700, type_byte = 1, type_undefined = 7;
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
    if (tag == tag_xmp && (type == type_byte || type == type_undefined)) {
      const uint64_t length = number(at + 4, 4), place = number(at + 8, 4);
      if (place < bytes.size() && length <= bytes.size() - place) fields.xmp = bytes.subspan(place, length);
    }
    if (type != type_short && type != type_long) continue;
    const auto value = static_cast<int64_t>(number(at + 8, type == type_short ? 2 : 4));
    if (tag == tag_width) fields.width = value;
    if (tag == tag_height) fields.height = value;
    if (tag == tag_orientation) fields.orientation = value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return fields;
}

int orientation_of(const TiffFields& exif, FileBytes xmp) {
  if (exif.orientation != 0) return exif.orientation;
  constexpr std::string_view name = "tiff:Orientation";
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (size_t at = 0; (at = text.find(name, at)) != text.npos;) {
    at += name.size();
    // An attribute or an element: ="6" or >6
    const size_t sign = text.substr(at).starts_with("=\"") ? 2 : text.substr(at).starts_with(">") ? 1 : 0;
    if (sign == 0 || at + sign >= text.size() || !isdigit(static_cast<unsigned char>(text[at + sign]))) continue;
    const int value = text[at + sign] - '0';
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

}  // namespace octet
