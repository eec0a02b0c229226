// BMP files: palettes, masks and runs.
#include <array>

#include "tests/data/decoded.h"

namespace octet {
namespace {

struct BmpFile {
  int width = 1, height = 1, bits = 24, compression = 0;
  std::vector<uint8_t> pixels = {};
  std::vector<uint32_t> masks = {};    // red, green, blue
  std::vector<uint32_t> palette = {};  // 0xRRGGBB
  int header = 40;                     // its bytes

  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> bmp = {'B', 'M'};
    const bool old = header == 12;
    const size_t behind = masks.size() * 4 > size_t(header - 40) ? masks.size() * 4 - (header - 40) : 0;
    const size_t place = 14 + header + (old ? 0 : behind) + palette.size() * (old ? 3 : 4);
    append_number(bmp, place + pixels.size(), 4);
    append_number(bmp, 0, 4);
    append_number(bmp, place, 4);
    append_number(bmp, header, 4);
    for (const int side : {width, height}) append_number(bmp, uint32_t(side), old ? 2 : 4);
    append_number(bmp, 1, 2);
    append_number(bmp, bits, 2);
    if (!old) {
      append_number(bmp, compression, 4);
      for (const size_t number : {pixels.size(), size_t{0}, size_t{0}, palette.size(), size_t{0}})
        append_number(bmp, number, 4);
      for (const uint32_t mask : masks) append_number(bmp, mask, 4);
    }
    bmp.resize(place - palette.size() * (old ? 3 : 4));
    for (const uint32_t colour : palette) append_number(bmp, colour, old ? 3 : 4);
    bmp.insert(bmp.end(), pixels.begin(), pixels.end());
    return bmp;
  }
};

std::vector<uint8_t> in_bytes(const std::vector<uint32_t>& pixels, int each) {
  std::vector<uint8_t> bytes;
  for (const uint32_t pixel : pixels) append_number(bytes, pixel, each);
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}

// As Pillow: value * 255 / 31, rounded down.
TEST(Bmp, FiveBitsFillTheRange) {
  const std::vector<uint8_t> pixels = in_bytes({31 << 10 | 16 << 5 | 1, 0x7FFF}, 2);
  const std::vector<int> expected = {255, 131, 8, 255, 255, 255};
  EXPECT_EQ(decoded(BmpFile{.width = 2, .bits = 16, .pixels = pixels}.bytes()), expected);
  BmpFile masked{.width = 2, .bits = 16, .compression = 3, .pixels = pixels, .masks = {0x7C00, 0x3E0, 0x1F}};
  EXPECT_EQ(decoded(masked.bytes()), expected);
  masked.header = 56;
  masked.masks.push_back(0);
  EXPECT_EQ(decoded(masked.bytes()), expected);
  const BmpFile six{.width = 2,
                    .bits = 16,
                    .compression = 3,
                    .pixels = in_bytes({31 << 11 | 32 << 5 | 1, 0xFFFF}, 2),
                    .masks = {0xF800, 0x7E0, 0x1F}};
  EXPECT_EQ(decoded(six.bytes()), (std::vector<int>{255, 129, 8, 255, 255, 255}));
}

TEST(Bmp, MasksSayWhereColoursAreAndAlphaIsDropped) {
  BmpFile file{.bits = 32, .pixels = in_bytes({0x80C86432}, 4)};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{0xC8, 0x64, 0x32}));
  file.compression = 3;
  file.masks = {0xFF, 0xFF00, 0xFF0000};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{0x32, 0x64, 0xC8}));
  file.header = 124;
  file.masks = {0xFF000000, 0xFF0000, 0xFF00, 0xFF};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{0x80, 0xC8, 0x64}));
  file.masks = {0x3FF00000, 0xFFC00, 0x3FF, 0};  // ten bits each
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{12 * 255 / 1023, 537 * 255 / 1023, 50 * 255 / 1023}));
}

TEST(Bmp, PalettesOfAnySizeAreRead) {
  const std::vector<uint32_t> palette = {0x102030, 0xFF8000, 0x00FF00, 0xABCDEF};
  const std::vector<int> expected = {0xFF, 0x80, 0, 0x10, 0x20, 0x30, 0xFF, 0x80, 0};
  BmpFile file{.width = 3, .bits = 1, .pixels = {0xA0, 0, 0, 0}, .palette = {palette[0], palette[1]}};
  EXPECT_EQ(decoded(file.bytes()), expected);
  file.header = 12;
  EXPECT_EQ(decoded(file.bytes()), expected);
  file = {.width = 3, .bits = 4, .pixels = {0x10, 0x1F, 0, 0}, .palette = palette};
  EXPECT_EQ(decoded(file.bytes()), expected);
  file = {.width = 3, .height = -2, .bits = 8, .pixels = {1, 0, 1, 0, 3, 200, 2, 0}, .palette = palette};
  EXPECT_EQ(decoded(file.bytes()), (std::vector<int>{0xFF, 0x80, 0, 0x10, 0x20, 0x30, 0xFF, 0x80, 0,  // from the top
                                                     0xAB, 0xCD, 0xEF, 0, 0, 0, 0, 0xFF, 0}));
}

// 3 x 3 pixels of 0 and 1, from the bottom: a run, single pixels, a skip.
TEST(Bmp, RunsAreRead) {
  const std::vector<uint32_t> palette = {0, 0x0000FF};
  const std::vector<int> rows = {0, 0, 1, 1, 0, 1, 1, 1, 1};  // from the top
  std::vector<int> expected;
  for (const int index : rows) expected.insert(expected.end(), {0, 0, 255 * index});
  BmpFile file{.width = 3, .height = 3, .bits = 8, .compression = 1, .palette = palette};
  file.pixels = {3, 1, 0, 0, 0, 3, 1, 0, 1, 0, 0, 0, 0, 2, 2, 0, 1, 1, 0, 1};
  EXPECT_EQ(decoded(file.bytes()), expected);
  file.pixels.resize(file.pixels.size() - 2);  // no mark of the end
  EXPECT_EQ(decoded(file.bytes()), expected);
  file.pixels.resize(file.pixels.size() - 2);
  expect_says(reason_of(file.bytes(), ImageFault::damaged), {"bad BMP data: it ends too early"});
  file.bits = 4;
  file.compression = 2;
  file.pixels = {3, 0x11, 0, 0, 0, 3, 0x10, 0x10, 0, 0, 2, 0x00, 9, 0x11, 0, 1};  // the last run is too long
  EXPECT_EQ(decoded(file.bytes()), expected);
}

TEST(Bmp, OddPlacesOfPixelsAreRead) {
  BmpFile file{.width = 2, .bits = 8, .pixels = {1, 0, 0, 0}, .palette = {0, 0xFF0000}};
  file.palette.resize(256);
  const std::vector<int> expected = {255, 0, 0, 0, 0, 0};
  auto bmp = file.bytes();
  for (const int place : {0, 54}) {  // nowhere, and where the palette is
    bmp[10] = static_cast<uint8_t>(place);
    bmp[11] = 0;
    EXPECT_EQ(decoded(bmp), expected);
  }
  bmp.resize(bmp.size() - 2);  // the padding of the last row
  EXPECT_EQ(decoded(bmp), expected);
  bmp.resize(bmp.size() - 1);
  expect_says(reason_of(bmp, ImageFault::damaged), {"ends too early"});
}

TEST(Bmp, OtherCompressionsAreRefused) {
  const BmpFile file{.bits = 24, .compression = 5, .pixels = {1, 2, 3, 4}};
  expect_says(reason_of(file.bytes(), ImageFault::other_format), {"24-bit pixels with compression 5"});
}

}  // namespace
}  // namespace octet
