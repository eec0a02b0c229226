// Decodes the bytes of JPEG and PNG files to RGB. Every value from a file is checked before use.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <stdexcept>

namespace octet {

// what() is the reason without the path; the caller adds it.
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ImageHeader {
  bool jpeg = false, cmyk = false;
  int64_t width = 0, height = 0;  // as stored, before the picture is turned upright
  int orientation = 1;            // of EXIF, 1 .. 8
};

// Reads the header only. Throws BadImage for formats other than JPEG and PNG, and for more than max_pixels pixels, so
// that a forged size allocates no memory.
ImageHeader read_header(std::span<const uint8_t> bytes, int64_t max_pixels);

// Decodes to 8-bit RGB (rows, columns, 3). A JPEG is decoded at n/8 of its size, which its transform gives almost for
// free: the smallest n/8 that is at least `scale`, which is at most 1. A PNG is decoded in full. Gray, CMYK, 16 bits
// and alpha are converted. Throws BadImage with the decoder's reason, also for files that end too early.
cv::Mat decode(std::span<const uint8_t> bytes, const ImageHeader& header, double scale);

// A picture as EXIF's orientation says that it is to be seen.
cv::Mat upright(const cv::Mat& stored, int orientation);

}  // namespace octet
