// The fields of EXIF data and of TIFF files that octet reads: both are lists of numbered tags.
#pragma once
#include <cstdint>
#include <span>

namespace octet {

struct TiffFields {
  int64_t width = 0, height = 0;  // 0: not there
  int orientation = 1;            // 1: as stored; 2 .. 8: how to mirror and turn the picture to see it upright
};
// Of the first list. `bytes` are a TIFF file, or EXIF data with or without their mark "Exif\0\0". Damaged data have no
// fields.
TiffFields tiff_fields(std::span<const uint8_t> bytes);

}  // namespace octet
