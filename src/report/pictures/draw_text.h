// Text in pictures, in any script for which the machine has a font.
#pragma once
#include <opencv2/core.hpp>
#include <string>

namespace octet {

// A line of text as pixels: how much of each its letters cover, 0 to 255, CV_8UC1. height: of a line, in pixels.
// Control characters and bytes that are not UTF-8 are drawn as signs of their own.
cv::Mat letters_of_text(const std::string& text, int height);
// Paints such letters, with their upper left corner there. What lies outside the picture, 8-bit RGB, is left out.
void paint_letters(cv::Mat& picture, const cv::Mat& letters, cv::Point corner, const cv::Scalar& color);

}  // namespace octet
