// Encodes RGB pixels as the bytes of an image file.
#pragma once
#include <cstdint>
#include <vector>

#include "src/data/images/raster.h"

namespace octet {

// rgb: 8-bit (rows, columns, 3).
std::vector<uint8_t> png_of(const Raster& rgb);
std::vector<uint8_t> jpeg_of(const Raster& rgb);  // quality 85, chroma at half the resolution

}  // namespace octet
