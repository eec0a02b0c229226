// How a picture is to be turned, as EXIF and XMP say.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>

#include "src/data/images/image_format.h"

namespace octet {

TiffFields tiff_fields(FileBytes bytes) {
  constexpr std::string_view mark{"Exif\0\0", 6};
  constexpr uint64_t tag_width = 0x100, tag_height = 0x101, tag_orientation = 0x112, type_short = 3, type_long = 4;
  constexpr uint64_t tag_xmp = 700, type_byte = 1, type_undefined = 7, type_long8 = 16;
  constexpr uint64_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8};  // of a value, by its type
  if (starts_with(bytes, mark)) bytes = bytes.subspan(mark.size());
  TiffFields fields;
  const bool last_first = starts_with(bytes, "II"),
             large = starts_with(bytes, {"II+\0", 4}) || starts_with(bytes, {"MM\0+", 4});
  if (!large && !starts_with(bytes, {"II*\0", 4}) && !starts_with(bytes, {"MM\0*", 4})) return fields;
  const auto number = [&](uint64_t at, int count) {
    return last_first ? little_endian(bytes, at, count) : big_endian(bytes, at, count);
  };
  // BigTIFF counts and points with eight bytes. TIFF does with four, and with two it counts the fields of a list.
  const int word = large ? 8 : 4, of_list = large ? 8 : 2;
  const uint64_t entry = 4 + 2 * word, list = number(large ? 8 : 4, word);
  if (list > bytes.size()) return fields;
  const uint64_t count = std::min<uint64_t>(number(list, of_list), bytes.size() / entry);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = list + of_list + i * entry;
    if (at + entry > bytes.size()) break;
    const uint64_t tag = number(at, 2), type = number(at + 2, 2), value_at = at + 4 + word;
    const uint64_t unit = type < std::size(sizes) ? sizes[type] : 0;
    const uint64_t size = unit * std::min<uint64_t>(number(at + 4, word), bytes.size() + 1);
    if (size > uint64_t(word)) fields.bytes += size;
    if (tag == tag_xmp && (type == type_byte || type == type_undefined)) {
      const uint64_t length = number(at + 4, word), place = number(value_at, word);
      if (place < bytes.size() && length <= bytes.size() - place) fields.xmp = bytes.subspan(place, length);
    }
    if (type != type_short && type != type_long && type != type_long8) continue;
    constexpr uint64_t most = std::numeric_limits<int64_t>::max();
    const auto value = static_cast<int64_t>(std::min(number(value_at, type == type_short  ? 2
                                                                      : type == type_long ? 4
                                                                                          : word),
                                                     most));
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
