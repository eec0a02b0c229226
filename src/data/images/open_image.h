// Image files, opened for a reader that may need only a part or a smaller decoding of their pixels.
#pragma once
#include <filesystem>
#include <functional>
#include <opencv2/core.hpp>

#include "src/data/augment/canvases.h"

namespace octet {

// An image whose size is known and whose pixels are not decoded yet.
struct OpenedImage {
  ImageSize size;
  // 8-bit RGB (rows, columns, 3): the image, or a smaller decoding that is at least `scale` times as large. scale: at
  // most 1. Throws BadImage.
  std::function<cv::Mat(double scale)> decode;
};

// stored: the pixels as the file holds them, the frame of annotated boxes. upright: as EXIF's orientation says.
enum class View { stored, upright };

// Throws BadImage. max_pixels: larger images are bad.
OpenedImage open_image(const std::filesystem::path& file, int64_t max_pixels, View view);

// The number of bytes that a file of max_pixels pixels may have.
inline int64_t most_bytes(int64_t max_pixels) { return 8 * max_pixels + (1 << 20); }

}  // namespace octet
