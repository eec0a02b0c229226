// The formats of image files that octet reads: a row of the table in image_format.cpp and two functions.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/data/images/decode.h"
#include "src/data/images/raster.h"

namespace octet {

using FileBytes = std::span<const uint8_t>;

struct ImageFormat {
  std::string_view name;                  // "JPEG"
  std::vector<std::string_view> endings;  // of names of files, in lower case: ".jpg"
  bool (*begins)(FileBytes);              // whether a file is of this format, by its first bytes
  // Size, orientation and colours. Throws BadImage. Where the header is damaged the size may be 0.
  ImageHeader (*header)(FileBytes);
  // As octet::decode().
  Raster (*decode)(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
  bool scales = false;  // decodes at n/8 of the size
};
// The smallest n for which n/8 is at least `scale`: 1 .. 8.
unsigned eighths(double scale);

const ImageFormat* format_of(FileBytes);                             // null: unknown
const ImageFormat* format_named(const std::filesystem::path& file);  // by the ending of its name; null: unknown
bool names_an_image(const std::filesystem::path& file);
std::string image_endings();  // ".jpg, .jpeg, .png ... or .pgm", for messages

bool starts_with(FileBytes, std::string_view start);
// The number in `count` bytes, the most significant one first or last. Beyond the end all bytes are 0.
uint64_t big_endian(FileBytes, uint64_t at, int count);
uint64_t little_endian(FileBytes, uint64_t at, int count);

// The fields of EXIF data and of TIFF files that octet reads: both are lists of numbered tags.
struct TiffFields {
  int64_t width = 0, height = 0;  // 0: not there
  int orientation = 0;            // 1: as stored; 2 .. 8: how to mirror and turn the picture to see it upright
  FileBytes xmp = {};             // of a TIFF file
  uint64_t bytes = 0;             // of the values of all fields, read or not, that do not fit into the list
};
// Of the first list. The bytes are a TIFF file, or EXIF data with or without their mark "Exif\0\0". Damaged data have
// no fields.
TiffFields tiff_fields(FileBytes);
int png_orientation(FileBytes);  // of a PNG file
// EXIF's orientation, or else that of XMP data, or else 1: as Pillow's exif_transpose.
int orientation_of(const TiffFields& exif, FileBytes xmp);

// What a decoder warns of if no 16-bit value of an image is above 4095.
inline constexpr std::string_view dark_sixteen_bits =
    "its 16-bit values are all below 4096, so it is nearly black: if they have 12 bits, multiply them by 16";

// The rows' functions.
ImageHeader jpeg_header(FileBytes), png_header(FileBytes), bmp_header(FileBytes), webp_header(FileBytes),
    tiff_header(FileBytes), pnm_header(FileBytes);
Raster decode_jpeg(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
Raster decode_png(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
Raster decode_bmp(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
Raster decode_webp(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
Raster decode_tiff(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);
Raster decode_pnm(FileBytes, const ImageHeader&, double scale, std::vector<std::string>* warnings);

}  // namespace octet
