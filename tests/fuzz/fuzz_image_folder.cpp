// An image file of any bytes is decoded to the size its header says, within the limit, or refused with a BadImage.
#include <cstdlib>

#include "src/data/images/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr int64_t max_pixels = 1 << 16;
  const std::span<const uint8_t> bytes{data + 1, size - 1};
  try {
    const octet::ImageHeader header = octet::read_header(bytes, max_pixels);
    if (header.width * header.height > max_pixels) abort();
    const double scale = (1 + data[0] % 16) / 16.0;
    const octet::Raster image = octet::decode(bytes, header, scale);
    if (image.channels != 3 || image.cols > header.width || image.rows > header.height) abort();
    if (image.cols < header.width * scale || image.rows < header.height * scale) abort();
  } catch (const octet::BadImage&) {
  }
  return 0;
}
