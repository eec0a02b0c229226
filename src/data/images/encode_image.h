// Encodes RGB pixels as the bytes of an image file.
#pragma once
#include <cstdint>
#include <opencv2/core.hpp>
#include <vector>

namespace octet {

// rgb: 8-bit (rows, columns, 3).
std::vector<uint8_t> png_of(const cv::Mat& rgb);
std::vector<uint8_t> jpeg_of(const cv::Mat& rgb);  // quality 85, chroma at half the resolution

}  // namespace octet
