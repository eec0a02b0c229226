// Decodes the bytes of image files to RGB. Every value from a file is checked before use.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/images/image_fault.h"
#include "src/data/images/raster.h"

namespace octet {

struct ImageFormat;
struct ImageHeader {
  const ImageFormat* format = nullptr;
  int64_t width = 0, height = 0;  // as stored, before the picture is turned upright
  int orientation = 1;            // of EXIF or XMP, 1 .. 8
  double decoder_bytes = 0;       // that decoding holds beside the pixels; a double: of sides that are not checked yet
};

// Reads the header only. Throws BadImage for a format that is not in the table of image_format.cpp, and for more than
// max_pixels pixels, so that a forged size allocates no memory.
ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels);

// Decodes to 8-bit RGB (rows, columns, 3). A JPEG is decoded at n/8 of its size, which its transform gives almost for
// free: the smallest n/8 that is at least `scale`, which is at most 1. Other formats are decoded in full. Gray becomes
// RGB. Of 16 bits in a PNG file the upper 8 are kept, in other files the nearest of 256 steps. Alpha is dropped. CMYK
// becomes the product of ink and black, without a colour profile. Throws BadImage with the decoder's reason, also for
// files that end too early. warnings: takes what is odd about a file whose pixels are complete, for example a damaged
// colour profile; without it nobody is told.
Raster decode(std::span<const uint8_t> bytes, const ImageHeader& header, double scale,
              std::vector<std::string>* warnings = nullptr);

// A picture as EXIF's orientation says that it is to be seen.
Raster upright(Raster stored, int orientation);

// Memory that decode() and upright() take at their peak, in bytes, with the picture that they return.
int64_t bytes_to_decode(const ImageHeader&, double scale);

}  // namespace octet
