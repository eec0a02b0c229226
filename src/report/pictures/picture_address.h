// Pictures inside a page, as "data:" addresses. RGB, 8 bits.
#pragma once
#include <opencv2/core.hpp>
#include <string>

namespace octet {

std::string jpeg_address(const cv::Mat& rgb);
std::string png_address(const cv::Mat& rgb);

}  // namespace octet
