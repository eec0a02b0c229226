// TIFF files: alpha, orientation, and kinds of values.
#include <map>

#include "src/data/images/image_format.h"
#include "tests/data/decoded.h"
#include "tests/data/files.h"

namespace octet {
namespace {

constexpr int gray_values = 1, rgb_values = 2;         // TIFF's photometric interpretations
constexpr int integers = 2, floats = 3;                // its sample formats
constexpr int unnamed = 0, multiplied = 1, plain = 2;  // its kinds of extra channels

// Little-endian and not compressed. Fields are numbers of two bytes.
struct TiffFile {
  int width = 1, height = 1, bits = 8, channels = 3, photometric = rgb_values;
  std::vector<uint8_t> pixels = {};
  std::map<int, std::vector<int>> more = {};  // fields by their tags
  std::string xmp = {};
  bool large = false;  // BigTIFF

  std::vector<uint8_t> bytes() const {
    std::map<int, std::vector<int>> fields = more;
    fields.insert({{256, {width}},
                   {257, {height}},
                   {258, std::vector<int>(channels, bits)},
                   {262, {photometric}},
                   {273, {large ? 16 : 8}},  // where the pixels are: behind the header
                   {277, {channels}},
                   {278, {height}},
                   {279, {int(pixels.size())}}});
    const int word = large ? 8 : 4, place_at = large ? 8 : 4;
    std::vector<uint8_t> tiff = {'I', 'I', uint8_t(large ? 43 : 42), 0};
    if (large) tiff.insert(tiff.end(), {8, 0, 0, 0});
    append_number(tiff, 0, word);
    tiff.insert(tiff.end(), pixels.begin(), pixels.end());
    std::vector<uint8_t> list;
    append_number(list, fields.size() + (xmp.empty() ? 0 : 1), large ? 8 : 2);
    const auto add = [&](int tag, int type, const std::vector<uint8_t>& data, size_t count) {
      append_number(list, tag, 2);
      append_number(list, type, 2);
      append_number(list, count, word);
      std::vector<uint8_t> here = data;
      if (data.size() > size_t(word)) {
        here.clear();
        append_number(here, tiff.size(), word);
        tiff.insert(tiff.end(), data.begin(), data.end());
      }
      here.resize(word);
      list.insert(list.end(), here.begin(), here.end());
    };
    for (const auto& [tag, numbers] : fields) {
      std::vector<uint8_t> data;
      for (const int number : numbers) append_number(data, number, 2);
      add(tag, 3, data, numbers.size());
    }
    if (!xmp.empty()) add(700, 1, {xmp.begin(), xmp.end()}, xmp.size());
    std::vector<uint8_t> place;
    append_number(place, tiff.size(), word);
    std::ranges::copy(place, tiff.begin() + place_at);
    tiff.insert(tiff.end(), list.begin(), list.end());
    append_number(tiff, 0, word);
    return tiff;
  }
};

std::vector<uint8_t> of_16_bits(const std::vector<int>& values) {
  std::vector<uint8_t> bytes;
  for (const int value : values) append_number(bytes, value, 2);
  return bytes;
}

// Two pixels with an alpha of 0 and 128, and one without alpha's effect.
TiffFile with_alpha(int kind) {
  TiffFile file{.width = 3, .channels = 4, .pixels = {200, 100, 50, 0, 200, 100, 50, 128, 9, 8, 7, 255}};
  file.more[338] = {kind};
  return file;
}

TEST(Tiff, ColoursBelowAlphaStay) {
  const std::vector<int> colours = {200, 100, 50, 200, 100, 50, 9, 8, 7};
  EXPECT_EQ(decoded(with_alpha(plain).bytes()), colours);
  EXPECT_EQ(decoded(with_alpha(unnamed).bytes()), colours);
  TiffFile unsaid = with_alpha(plain);
  unsaid.more.clear();
  EXPECT_EQ(decoded(unsaid.bytes()), colours);
  TiffFile planes = with_alpha(plain);
  planes.more[284] = {2};  // one plane of the file for each channel
  planes.more[273] = {8, 11, 14, 17};
  planes.more[279] = {3, 3, 3, 3};
  planes.pixels = {200, 200, 9, 100, 100, 8, 50, 50, 7, 0, 128, 255};
  EXPECT_EQ(decoded(planes.bytes()), colours);
  TiffFile gray{.width = 2, .channels = 2, .photometric = gray_values, .pixels = {77, 0, 88, 128}};
  gray.more[338] = {plain};
  EXPECT_EQ(decoded(gray.bytes()), (std::vector<int>{77, 77, 77, 88, 88, 88}));
}

TEST(Tiff, ColoursOf16BitsBelowAlphaStay) {
  TiffFile file{.width = 2, .bits = 16, .channels = 4};
  file.pixels = of_16_bits({200 * 257, 100 * 257, 50 * 257, 0, 65535, 128, 129, 32768});
  file.more[338] = {plain};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{200, 100, 50, 255, 0, 1}));
}

// Pillow divides such colours by alpha, and rounds down.
TEST(Tiff, ColoursThatAreMultipliedByAlphaAreDivided) {
  TiffFile file = with_alpha(multiplied);
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{0, 0, 0, 255, 199, 99, 9, 8, 7}));
}

TEST(Tiff, MoreChannelsThanRgbAndAlphaAreDropped) {
  TiffFile file{.width = 2, .channels = 5, .pixels = {1, 2, 3, 0, 99, 4, 5, 6, 7, 98}};
  file.more[338] = {plain, unnamed};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST(Tiff, OtherValuesAndChannelsAreRefusedByName) {
  TiffFile file{.width = 2, .height = 2, .bits = 16, .channels = 1, .photometric = gray_values};
  file.pixels.resize(2 * 2 * 10);
  const auto reason = [&] { return reason_of(file.bytes(), ImageFault::other_format); };
  file.more[339] = {integers};
  expect_says(reason(), {"a TIFF file of signed 16-bit values", "octet reads unsigned values of 1, 2, 4, 8 or 16 bits",
                         "convert the file"});
  file.bits = 32;
  file.more[339] = {floats};
  expect_says(reason(), {"a TIFF file of 32-bit floating-point values;"});
  file.more.clear();
  expect_says(reason(), {"a TIFF file of 32-bit values;"});
  file.bits = 12;
  expect_says(reason(), {"a TIFF file of 12-bit values;"});
  file.bits = 8;
  file.channels = 5;
  expect_says(reason(), {"a TIFF file of 5 gray channels;"});
  file.more[284] = {2};
  file.more[273] = {8, 12, 16, 20, 24};
  file.more[279] = {4, 4, 4, 4, 4};
  expect_says(reason(), {"a TIFF file of 5 gray channels;"});
}

// Pillow reads them too: programs write them for usual pixels.
TEST(Tiff, EightBitsThatAreSaidToBeSignedAreUsualPixels) {
  TiffFile file{.channels = 1, .photometric = gray_values, .pixels = {200}};
  file.more[339] = {integers};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{200, 200, 200}));
}

// libtiff reads such a file only if it is mapped.
TEST(Tiff, SmallTilesAreRead) {
  TiffFile file{.width = 17, .channels = 1, .photometric = gray_values};
  file.pixels.resize(2 * 16 * 16);
  file.pixels[0] = 7;
  file.pixels[256] = 9;
  file.more[322] = file.more[323] = {16};  // sides of a tile
  file.more[324] = {8, 8 + 256};
  file.more[325] = {256, 256};
  const cv::Mat image = decoded_image(file.bytes());
  EXPECT_EQ(image.at<cv::Vec3b>(0, 0), cv::Vec3b(7, 7, 7));
  EXPECT_EQ(image.at<cv::Vec3b>(0, 16), cv::Vec3b(9, 9, 9));
}

TEST(Tiff, AMissingStripIsABadImage) {
  TiffFile file{.width = 2, .height = 2};
  file.pixels.resize(12);
  file.more[278] = {1};         // rows of a strip
  file.more[273] = {8, 60000};  // the second one is beyond the end
  file.more[279] = {6, 6};
  expect_says(reason_of(file.bytes(), ImageFault::damaged), {"bad TIFF data: Read error"});
}

TEST(Tiff, TwelveBitsInSixteenAreNamed) {
  TiffFile file{.bits = 16, .pixels = of_16_bits({4095, 0, 2000})};
  std::vector<std::string> warnings;
  EXPECT_EQ(decoded(file.bytes(), &warnings), (std::vector<int>{16, 0, 8}));
  ASSERT_EQ(warnings.size(), 1u);
  expect_says(warnings[0], {"below 4096"});
  warnings.clear();
  file.pixels = of_16_bits({65520, 0, 2000});
  decoded(file.bytes(), &warnings);
  EXPECT_TRUE(warnings.empty());
}

TEST(Tiff, PicturesAreTurnedUpright) {
  const cv::Mat stored = (cv::Mat_<cv::Vec3b>(1, 2) << cv::Vec3b(255, 0, 0), cv::Vec3b(0, 0, 255));
  TiffFile file{.width = 2, .pixels = {255, 0, 0, 0, 0, 255}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    file.more[274] = {orientation};
    const auto bytes = file.bytes();
    const cv::Mat seen = mat_of(upright(raster_of(decoded_image(bytes)), read_header(bytes, 1 << 20).orientation));
    const cv::Mat expected = mat_of(upright(raster_of(stored), orientation));
    ASSERT_EQ(seen.size(), expected.size()) << orientation;
    EXPECT_EQ(cv::norm(seen, expected, cv::NORM_INF), 0) << orientation;
  }
  file.more.clear();
  file.xmp = "<rdf tiff:Orientation=\"6\">";
  for (const bool large : {false, true}) {
    file.large = large;
    EXPECT_EQ(read_header(file.bytes(), 1 << 20).orientation, 6);
  }
}

TEST(Tiff, BigTiffIsRead) {
  TiffFile file{.width = 2, .pixels = {255, 0, 0, 0, 9, 255}, .large = true};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{255, 0, 0, 0, 9, 255}));
  file.more[274] = {6};
  const cv::Mat image = decoded_image(file.bytes());  // turned as TIFF files are
  EXPECT_EQ(image.size(), cv::Size(1, 2));
  EXPECT_EQ(image.at<cv::Vec3b>(1, 0), cv::Vec3b(0, 9, 255));
}

// One pixel of red, with sides of eight bytes and the most significant byte first.
TEST(Tiff, BigTiffOfEitherOrderIsRead) {
  std::string hex =
      "4d4d002b00080000"
      "0000000000000018"
      "ff00000000000000"
      "000000000000000a";
  const auto field = [&](int tag, int type, uint64_t count, uint64_t value) {
    char text[48];
    snprintf(text, sizeof text, "%04x%04x%016lx%016lx", tag, type, count, value);
    hex += text;
  };
  constexpr int two = 3, eight = 16;
  field(256, eight, 1, 1), field(257, eight, 1, 1);
  field(258, two, 3, 0x0008000800080000), field(259, two, 1, 1ull << 48), field(262, two, 1, 2ull << 48);
  field(273, eight, 1, 16), field(274, two, 1, 1ull << 48), field(277, two, 1, 3ull << 48);
  field(278, eight, 1, 1), field(279, eight, 1, 3);
  EXPECT_EQ(decoded(bytes_in_hex(hex + "0000000000000000")), (std::vector<int>{255, 0, 0}));
}

TEST(Tiff, ASideOfMoreThan63BitsIsNotNegative) {
  const std::string list =
      "4d4d002b00080000"
      "0000000000000010"
      "0000000000000002";
  const std::string width =
      "01000010"
      "0000000000000001"
      "0000000000000010";
  const std::string height =
      "01010010"
      "0000000000000001"
      "8000000000000000";
  try {
    read_header(bytes_in_hex(list + width + height + "0000000000000000"), 1 << 20);
    FAIL() << "no error";
  } catch (const BadImage& error) {
    EXPECT_NE(std::string(error.what()).find("16 x 9223372036854775807, more than"), std::string::npos) << error.what();
  }
}

// The list of fields, its length and the places in it may be any number.
TEST(Tiff, DamagedBigTiffIsABadImage) {
  const auto whole = TiffFile{.pixels = {1, 2, 3}, .xmp = std::string(20, ' '), .large = true}.bytes();
  for (size_t at = 8; at < whole.size(); ++at) {
    auto bytes = whole;
    bytes[at] = 0xFF;
    try {
      decoded(bytes);
    } catch (const BadImage&) {
    }
  }
}

}  // namespace
}  // namespace octet
