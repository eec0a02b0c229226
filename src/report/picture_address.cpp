#include "src/report/picture_address.h"

#include <openssl/evp.h>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

namespace octet {
namespace {

std::string address_of(const cv::Mat& rgb, const char* ending, const char* type, const std::vector<int>& options) {
  cv::Mat bgr;
  cv::cvtColor(rgb, bgr, cv::COLOR_RGB2BGR);
  std::vector<uint8_t> bytes;
  cv::imencode(ending, bgr, bytes, options);
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  text.resize(static_cast<size_t>(
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(), static_cast<int>(bytes.size()))));
  return std::string("data:") + type + ";base64," + text;
}

}  // namespace

std::string jpeg_address(const cv::Mat& rgb) {
  return address_of(rgb, ".jpg", "image/jpeg", {cv::IMWRITE_JPEG_QUALITY, 85});
}

std::string png_address(const cv::Mat& rgb) { return address_of(rgb, ".png", "image/png", {}); }

}  // namespace octet
