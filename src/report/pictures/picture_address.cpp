#include "src/report/pictures/picture_address.h"

#include <openssl/evp.h>

#include <vector>

#include "src/data/images/encode_image.h"

namespace octet {
namespace {

std::string address_of(const char* type, const std::vector<uint8_t>& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  text.resize(static_cast<size_t>(
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(), static_cast<int>(bytes.size()))));
  return std::string("data:") + type + ";base64," + text;
}

}  // namespace

std::string jpeg_address(const cv::Mat& rgb) { return address_of("image/jpeg", jpeg_of(rgb)); }

std::string png_address(const cv::Mat& rgb) { return address_of("image/png", png_of(rgb)); }

}  // namespace octet
