// Orientations in the texts of PNG files. Each answer is that of Pillow 11's exif_transpose, where it reads the file.
#include <zlib.h>

#include "tests/data/decoded.h"
#include "tests/data/files.h"

namespace octet {
namespace {

using Bytes = std::vector<uint8_t>;

const std::string zero(1, '\0');
const std::string exif_3 = "49492a0008000000010012010300010000000300000000000000";  // in hexadecimal digits
const std::string xmp_key = "XML:com.adobe.xmp" + zero, exif_key = "Raw profile type exif" + zero;

std::string profile(const std::string& name, const std::string& digits) {
  return "\n" + name + "\n" + "      32\n" + digits.substr(0, 20) + "\n" + digits.substr(20) + "\n";
}
std::string xmp(int orientation) { return say("<rdf tiff:Orientation=\"", orientation, "\"/>"); }
const std::string exif_profile = profile("exif", "457869660000" + exif_3);

std::string compressed(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string result(size, '\0');
  compress(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return result.substr(0, size);
}

std::string chunk(const std::string& name, const std::string& data) {
  std::string all;
  for (int shift = 24; shift >= 0; shift -= 8) all += static_cast<char>(data.size() >> shift);
  return all + name + data + "....";  // its checksum does not count
}

// With chunks before and after the pixels.
int orientation_with(const std::string& before, const std::string& after = "") {
  Bytes png;
  cv::imencode(".png", picture(10, 20), png);
  png.insert(png.end() - 12, after.begin(), after.end());
  png.insert(png.begin() + 33, before.begin(), before.end());
  return read_header(png, 1 << 20).orientation;
}

TEST(PngOrientation, IsInExifDataThatAreAText) {
  const std::string plain = chunk("tEXt", exif_key + exif_profile);
  EXPECT_EQ(orientation_with(plain), 3);
  EXPECT_EQ(orientation_with("", plain), 3);
  EXPECT_EQ(orientation_with(chunk("zTXt", exif_key + zero + compressed(exif_profile))), 3);
  EXPECT_EQ(orientation_with(chunk("iTXt", exif_key + zero + zero + "en" + zero + zero + exif_profile)), 3);
  EXPECT_EQ(orientation_with(chunk("tEXt", exif_key + profile("exif", exif_3))), 3);  // without the mark of EXIF
}

TEST(PngOrientation, IsInCompressedXmp) {
  EXPECT_EQ(orientation_with(chunk("iTXt", xmp_key + "\1" + zero + zero + zero + compressed(xmp(6)))), 6);
  EXPECT_EQ(orientation_with(chunk("iTXt", xmp_key + zero + zero + "en" + zero + "key" + zero + xmp(8))), 8);
  EXPECT_EQ(orientation_with(chunk("zTXt", xmp_key + zero + compressed(xmp(5)))), 5);
  EXPECT_EQ(orientation_with(chunk("tEXt", xmp_key + xmp(7))), 7);
}

TEST(PngOrientation, IsThatOfExifAndOfTheLastText) {
  const std::string text = chunk("tEXt", exif_key + exif_profile),
                    own = chunk("eXIf", "II*" + zero + "\10" + std::string(9, '\0'));
  EXPECT_EQ(orientation_with(chunk("tEXt", xmp_key + xmp(6)) + text), 3);
  EXPECT_EQ(orientation_with(own + text), 1);  // the file's own EXIF data, which say nothing
  EXPECT_EQ(orientation_with(own + text + chunk("tEXt", xmp_key + xmp(6))), 6);
  EXPECT_EQ(orientation_with(chunk("tEXt", xmp_key + xmp(6)) + chunk("tEXt", xmp_key + xmp(8))), 8);
}

// Pillow does not read the first three either, and fails for those that are damaged or too long.
TEST(PngOrientation, IsNotInOtherOrDamagedTexts) {
  for (const std::string& data : {
           chunk("tEXt", "Raw profile type APP1" + zero + profile("APP1", "457869660000" + exif_3)),
           chunk("tEXt", "exif:Orientation" + zero + "6"),
           chunk("tEXt", exif_key + "457869660000" + exif_3),
           chunk("tEXt", exif_key),
           chunk("tEXt", exif_key + profile("exif", "4578696600xx" + exif_3)),
           chunk("zTXt", exif_key),
           chunk("zTXt", exif_key + zero + "no deflated data"),
           chunk("iTXt", xmp_key),
           chunk("iTXt", xmp_key + "\1" + zero + zero),
           chunk("iTXt", xmp_key + "\1" + zero + zero + zero + compressed(xmp(6)).substr(0, 12)),
           chunk("iTXt", xmp_key + "\1" + zero + zero + zero + compressed(std::string(1 << 20, ' ') + xmp(6))),
       })
    EXPECT_EQ(orientation_with(data), 1);
}

}  // namespace
}  // namespace octet
