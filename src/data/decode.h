// JPEG and PNG files, given as their bytes, to RGB. Nothing in a file is believed before it is checked.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <stdexcept>

namespace octet {

// what() is the reason alone; who knows the path adds it.
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ImageHeader {
  bool jpeg = false, cmyk = false;
  int64_t width = 0, height = 0;
};

// Reads the header only. Throws BadImage for formats other than JPEG and PNG and for more than max_pixels pixels, so
// that nothing of a forged size is ever allocated.
ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels);

// Decodes to 8-bit RGB (rows, columns, 3). JPEGs come out at the smallest of the sizes n/8 that their transform gives
// almost for free and that is not below `scale` (at most 1); PNGs always in full. Gray, CMYK, 16 bits and alpha are
// converted. Throws BadImage with the decoder's reason, also for files that merely end too early.
cv::Mat decode(std::span<const uint8_t> bytes, const ImageHeader& header, double scale);

}  // namespace octet
