// Decodes the bytes of image files that tests build.
#pragma once
#include <string>
#include <vector>

#include "src/data/images/decode.h"
#include "tests/data/mats.h"
#include "tests/data/support.h"

namespace octet {

// Little-endian, as TIFF and BMP files have them.
inline void append_number(std::vector<uint8_t>& bytes, uint64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(number >> (8 * i)));
}

inline cv::Mat decoded_image(const std::vector<uint8_t>& bytes, std::vector<std::string>* warnings = nullptr) {
  return mat_of(decode(bytes, read_header(bytes, 1 << 20), 1, warnings));
}

// Row by row, red, green and blue of each pixel.
inline std::vector<int> decoded(const std::vector<uint8_t>& bytes, std::vector<std::string>* warnings = nullptr) {
  const cv::Mat image = decoded_image(bytes, warnings);
  return {image.datastart, image.dataend};
}

// Why the bytes are a bad image. Fails the test if they are none, or if something is printed.
inline std::string reason_of(const std::vector<uint8_t>& bytes, ImageFault expected) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::string reason;
  try {
    decoded(bytes);
    ADD_FAILURE() << "it was decoded";
  } catch (const BadImage& bad) {
    reason = bad.what();
    EXPECT_EQ(bad.fault, expected) << reason;
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr() + testing::internal::GetCapturedStdout(), "");
  return reason;
}

}  // namespace octet
