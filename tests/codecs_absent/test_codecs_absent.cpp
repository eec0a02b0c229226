// A build without OpenCV's decoders: JPEG and PNG are read, and other formats are bad images with a way out.
#include <gtest/gtest.h>

#include "src/data/images/decode.h"
#include "src/data/images/encode_image.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

TEST(CodecsAbsent, PngAndJpegAreRead) {
  const cv::Mat rgb(9, 7, CV_8UC3, cv::Scalar(10, 100, 200));
  for (const auto& bytes : {png_of(rgb), jpeg_of(rgb)}) {
    const cv::Mat read = decode(bytes, read_header(bytes, 1000), 1);
    ASSERT_EQ(read.size(), rgb.size());
    EXPECT_LE(cv::norm(read, rgb, cv::NORM_INF), 2);  // JPEG rounds colours
  }
}

TEST(CodecsAbsent, OtherFormatsAreRefusedByName) {
  const std::string text = "P6\n1 1\n255\nabc";
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const ImageHeader header = read_header(bytes, 1000);
  EXPECT_EQ(header.width, 1);
  try {
    decode(bytes, header, 1);
    FAIL() << "it was decoded";
  } catch (const BadImage& bad) {
    EXPECT_EQ(bad.fault, ImageFault::other_format);
    EXPECT_STREQ(bad.what(),
                 "a PNM file, which this build of octet does not read; convert it to PNG or JPEG, or build "
                 "with OCTET_OPENCV_CODECS=ON");
  }
}

}  // namespace
}  // namespace octet
