// Image files, whole and broken.
#pragma once
#include <turbojpeg.h>

#include <opencv2/imgcodecs.hpp>

#include "tests/data/mats.h"
#include "tests/data/support.h"

namespace octet {

// Left half red, right half blue, in BGR.
inline cv::Mat picture(int height, int width) {
  cv::Mat image(height, width, CV_8UC3, cv::Scalar(0, 0, 255));
  image(cv::Rect(width / 2, 0, width - width / 2, height)) = cv::Scalar(255, 0, 0);
  return image;
}

// Of "00ff80": 0, 255, 128.
inline std::vector<uint8_t> bytes_in_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline std::vector<uint8_t> encoded(const cv::Mat& image, const char* extension) {
  std::vector<uint8_t> bytes;
  cv::imencode(extension, image, bytes);
  return bytes;
}

// C = 255 - red and so on, no black: as Adobe stores it the bytes are red, green, blue, 255.
inline std::vector<uint8_t> encoded_cmyk(int height, int width, uint8_t red, uint8_t green, uint8_t blue) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < height * width; ++i) pixels.insert(pixels.end(), {red, green, blue, 255});
  tjhandle handle = tjInitCompress();
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(handle, pixels.data(), width, 0, height, TJPF_CMYK, &buffer, &size, TJSAMP_444, 95, 0), 0);
  std::vector<uint8_t> bytes(buffer, buffer + size);
  tjFree(buffer);
  tjDestroy(handle);
  return bytes;
}

// With EXIF data that say how the picture is turned.
inline std::vector<uint8_t> with_orientation(std::vector<uint8_t> jpeg, int orientation) {
  const std::vector<uint8_t> segment = {0xFF,
                                        0xE1,
                                        0,
                                        34,
                                        'E',
                                        'x',
                                        'i',
                                        'f',
                                        0,
                                        0,
                                        'I',
                                        'I',
                                        42,
                                        0,
                                        8,
                                        0,
                                        0,
                                        0,
                                        1,
                                        0,
                                        0x12,
                                        1,
                                        3,
                                        0,
                                        1,
                                        0,
                                        0,
                                        0,
                                        static_cast<uint8_t>(orientation),
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0};
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  return jpeg;
}

// The size in the start-of-frame segment replaced by 60000 x 60000.
inline std::vector<uint8_t> forged(std::vector<uint8_t> jpeg) {
  for (size_t i = 2; i + 9 < jpeg.size();) {
    if (jpeg[i + 1] == 0xC0 || jpeg[i + 1] == 0xC2) {
      jpeg[i + 5] = jpeg[i + 7] = 60000 >> 8;
      jpeg[i + 6] = jpeg[i + 8] = 60000 & 255;
      return jpeg;
    }
    i += 2 + (jpeg[i + 2] << 8 | jpeg[i + 3]);
  }
  ADD_FAILURE() << "no frame";
  return jpeg;
}

inline std::vector<uint8_t> start_of(std::vector<uint8_t> bytes, size_t size) {
  bytes.resize(size);
  return bytes;
}

}  // namespace octet
