// The orientation of a PNG file. Its texts are those that Pillow 11 reads: ImageMagick keeps EXIF data as one of them.
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "src/data/images/image_format.h"

namespace octet {
namespace {

constexpr size_t most_text = 1 << 20;  // bytes of a text that is compressed; Pillow refuses files with a longer one

struct PngText {
  FileBytes bytes;
  bool compressed = false;
};

// What follows the first zero byte. Empty: there is none.
FileBytes behind_zero(FileBytes bytes) {
  const auto zero = std::ranges::find(bytes, 0);
  return bytes.subspan(std::min<size_t>(zero - bytes.begin() + 1, bytes.size()));
}

// kind: the chunk's name. Nothing: no text, or one with another keyword.
std::optional<PngText> text_of(std::string_view kind, FileBytes data, std::string_view keyword) {
  if (!starts_with(data, keyword) || data.size() <= keyword.size() || data[keyword.size()] != 0) return {};
  data = data.subspan(keyword.size() + 1);
  if (kind == "tEXt") return PngText{data};
  if (kind == "zTXt" && !data.empty()) return PngText{data.subspan(1), true};  // behind the method
  if (kind != "iTXt" || data.size() < 2) return {};
  return PngText{behind_zero(behind_zero(data.subspan(2))), data[0] != 0};  // behind the language and its keyword
}

// Empty: damaged, or too long.
std::vector<uint8_t> contents_of(const PngText& text) {
  if (!text.compressed) return {text.bytes.begin(), text.bytes.end()};
  std::vector<uint8_t> contents(most_text);
  uLongf size = contents.size();
  if (uncompress(contents.data(), &size, text.bytes.data(), text.bytes.size()) != Z_OK) size = 0;
  contents.resize(size);
  return contents;
}

// Hexadecimal digits behind three lines: an empty one, the name of the profile and its size. Empty: damaged.
std::vector<uint8_t> profile_in(FileBytes text) {
  for (int line = 0; line < 3; ++line) {
    const auto end = std::ranges::find(text, '\n');
    if (end == text.end()) return {};
    text = text.subspan(end - text.begin() + 1);
  }
  std::vector<uint8_t> profile;
  bool half = false;
  for (const uint8_t c : text) {
    if (isspace(c)) continue;
    if (!isxdigit(c)) return {};
    const auto digit = static_cast<uint8_t>(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
    if (half)
      profile.back() |= digit;
    else
      profile.push_back(static_cast<uint8_t>(digit << 4));
    half = !half;
  }
  return profile;
}

}  // namespace

// EXIF and XMP data are chunks, before or after the pixels. A chunk is length, name, data and checksum. Of texts with
// one keyword the last counts.
int png_orientation(FileBytes file) {
  FileBytes exif;
  std::optional<PngText> profile, xmp;
  for (uint64_t at = 8; at + 12 <= file.size();) {
    const uint64_t length = big_endian(file, at, 4);
    if (length > file.size() - at - 12) break;
    const FileBytes data = file.subspan(at + 8, length);
    const std::string_view kind(reinterpret_cast<const char*>(&file[at + 4]), 4);
    if (kind == "eXIf" && exif.empty()) exif = data;
    if (const auto text = text_of(kind, data, "Raw profile type exif")) profile = text;
    if (const auto text = text_of(kind, data, "XML:com.adobe.xmp")) xmp = text;
    at += 12 + length;
  }
  const std::vector<uint8_t> unpacked =
      exif.empty() && profile ? profile_in(contents_of(*profile)) : std::vector<uint8_t>();
  const TiffFields fields = tiff_fields(exif.empty() ? FileBytes(unpacked) : exif);
  return orientation_of(fields, xmp && fields.orientation == 0 ? contents_of(*xmp) : std::vector<uint8_t>());
}

}  // namespace octet
