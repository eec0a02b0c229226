#include "src/data/images/image_format.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "src/config/keys.h"

namespace octet {
namespace {

const std::vector<ImageFormat>& image_formats() {
  static const std::vector<ImageFormat> all = {
      {"JPEG",
       {".jpg", ".jpeg"},
       [](FileBytes file) { return starts_with(file, "\xFF\xD8\xFF"); },
       jpeg_header,
       decode_jpeg,
       /*scales=*/true},
      {"PNG",
       {".png"},
       [](FileBytes file) {
         return starts_with(file, {"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16});
       },
       png_header,
       decode_png},
      {"BMP", {".bmp"}, [](FileBytes file) { return starts_with(file, "BM"); }, bmp_header, decode_bmp},
      {"WebP",
       {".webp"},
       [](FileBytes file) {
         return starts_with(file, "RIFF") && file.size() > 12 && starts_with(file.subspan(8), "WEBP");
       },
       webp_header,
       decode_webp},
      {"TIFF",
       {".tif", ".tiff"},
       [](FileBytes file) {
         return starts_with(file, {"II*\0", 4}) || starts_with(file, {"MM\0*", 4}) ||  // and BigTIFF:
                starts_with(file, {"II+\0", 4}) || starts_with(file, {"MM\0+", 4});
       },
       tiff_header,
       decode_tiff},
      {"PNM",
       {".ppm", ".pgm"},
       [](FileBytes file) {
         return file.size() > 2 && file[0] == 'P' && file[1] >= '2' && file[1] <= '6' && file[1] != '4' &&
                isspace(file[2]);
       },
       pnm_header,
       decode_pnm},
  };
  return all;
}

}  // namespace

const ImageFormat* format_of(FileBytes file) {
  const auto found =
      std::ranges::find_if(image_formats(), [&](const ImageFormat& format) { return format.begins(file); });
  return found == image_formats().end() ? nullptr : &*found;
}

const ImageFormat* format_named(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(tolower(c)); });
  const auto has = [&](const ImageFormat& format) { return std::ranges::count(format.endings, ending) > 0; };
  const auto found = std::ranges::find_if(image_formats(), has);
  return found == image_formats().end() ? nullptr : &*found;
}

unsigned eighths(double scale) { return static_cast<unsigned>(std::clamp(std::ceil(8 * scale), 1.0, 8.0)); }

bool names_an_image(const std::filesystem::path& file) { return format_named(file) != nullptr; }

std::string image_endings() {
  std::vector<std::string> endings;
  for (const ImageFormat& format : image_formats())
    for (const std::string_view ending : format.endings) endings.emplace_back(ending);
  const std::string last = std::exchange(endings.back(), {});
  endings.pop_back();
  return joined(endings, ", ") + " or " + last;
}

bool starts_with(FileBytes bytes, std::string_view start) {
  return bytes.size() >= start.size() &&
         std::equal(start.begin(), start.end(), bytes.begin(), [](char c, uint8_t byte) { return uint8_t(c) == byte; });
}

uint64_t big_endian(FileBytes bytes, uint64_t at, int count) {
  uint64_t number = 0;
  for (int i = 0; i < count; ++i) number = number << 8 | (at + i < bytes.size() ? bytes[at + i] : 0);
  return number;
}

uint64_t little_endian(FileBytes bytes, uint64_t at, int count) {
  uint64_t number = 0;
  for (int i = count; i-- > 0;) number = number << 8 | (at + i < bytes.size() ? bytes[at + i] : 0);
  return number;
}

}  // namespace octet
