// Formats beside JPEG and PNG, nested folders, and files that are no images.
#include <opencv2/imgproc.hpp>

#include "src/data/images/decode.h"
#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"
#include "src/data/images/open_image.h"
#include "src/data/sources/named_images.h"
#include "tests/data/decoded.h"
#include "tests/data/files.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::vector<uint8_t> lossless(const cv::Mat& image, const std::string& ending) {
  std::vector<uint8_t> bytes;
  const std::vector<int> options =
      ending == ".webp" ? std::vector<int>{cv::IMWRITE_WEBP_QUALITY, 101} : std::vector<int>{};
  cv::imencode(ending, image, bytes, options);
  return bytes;
}

void append_text(std::vector<uint8_t>& bytes, const std::string& text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

const std::vector<std::string> other_endings = {".bmp", ".webp", ".tif", ".ppm"};

TEST(ImageFormats, AreDecodedToTheirPixels) {
  cv::Mat bgr(37, 23, CV_8UC3), rgb;
  cv::randu(bgr, 0, 255);
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  for (const std::string& ending : other_endings) {
    const auto bytes = lossless(bgr, ending);
    const ImageHeader header = read_header(bytes, 1 << 20);
    EXPECT_EQ(header.width, 23) << ending;
    EXPECT_EQ(header.height, 37) << ending;
    EXPECT_EQ(header.format, format_named("x" + ending));
    EXPECT_EQ(cv::norm(mat_of(decode(bytes, header, 0.1)), rgb, cv::NORM_INF), 0) << ending;
  }
  const auto gray = lossless(cv::Mat(5, 4, CV_8UC1, cv::Scalar(77)), ".pgm");
  EXPECT_EQ(decoded_image(gray).at<cv::Vec3b>(4, 3), cv::Vec3b(77, 77, 77));
  const auto sixteen = lossless(cv::Mat(5, 4, CV_16UC3, cv::Scalar(50 * 256 + 200, 100 * 256, 200 * 256)), ".tif");
  const cv::Vec3b rounded = decoded_image(sixteen).at<cv::Vec3b>(4, 3);
  EXPECT_EQ(rounded, cv::Vec3b(199, 100, 51));  // value * 255 / 65535, to the nearest
  const auto clear = lossless(cv::Mat(5, 4, CV_8UC4, cv::Scalar(50, 100, 200, 0)), ".webp");
  EXPECT_EQ(decoded_image(clear).size(), cv::Size(4, 5));
}

TEST(ImageFormats, DamageIsABadImage) {
  for (const std::string& ending : other_endings) {
    const auto whole = lossless(picture(40, 50), ending);
    for (size_t size = 1; size < std::min<size_t>(whole.size(), 200); ++size)
      EXPECT_THROW(decode(start_of(whole, size), read_header(start_of(whole, size), 1 << 20), 1), BadImage)
          << ending << ", " << size;
    EXPECT_THROW(read_header(whole, 40 * 50 - 1), BadImage) << ending;
    for (size_t at = 0; at < std::min<size_t>(whole.size(), 100); ++at)
      for (const int value : {0, 0x7F, 0xFF}) {
        auto damaged = whole;
        damaged[at] = static_cast<uint8_t>(value);
        try {
          const ImageHeader header = read_header(damaged, 1 << 20);
          const cv::Mat image = mat_of(decode(damaged, header, 1));
          EXPECT_EQ(image.size(), cv::Size(int(header.width), int(header.height)));
        } catch (const BadImage&) {
        }
      }
  }
}

TEST(ImageFormats, ColoursBelowAlphaStay) {
  const cv::Mat half(3, 2, CV_8UC4, cv::Scalar(50, 100, 200, 128)), clear(3, 2, CV_8UC4, cv::Scalar(50, 100, 200, 0));
  const cv::Mat expected(3, 2, CV_8UC3, cv::Scalar(200, 100, 50));
  for (const auto& bytes : {lossless(half, ".webp"), lossless(half, ".png"), lossless(clear, ".png")})
    EXPECT_EQ(cv::norm(decoded_image(bytes), expected, cv::NORM_INF), 0);
}

TEST(ImageFormats, DecodersPrintNothing) {
  cv::Mat noise(40, 50, CV_8UC3);
  cv::randu(noise, 0, 255);
  for (const char* ending : {".bmp", ".webp", ".tif", ".ppm", ".png", ".jpg"}) {
    const auto whole = lossless(noise, ending);
    for (const size_t size : {whole.size() / 3, whole.size() / 2, whole.size() - 40})
      reason_of(start_of(whole, size), ImageFault::damaged);
  }
}

TEST(ImageFormats, TwelveBitsInSixteenAreNamed) {
  std::vector<std::string> warnings;
  decoded(lossless(cv::Mat(5, 4, CV_16UC3, cv::Scalar(4095, 0, 7)), ".png"), &warnings);
  ASSERT_EQ(warnings.size(), 1u);
  expect_says(warnings[0], {"below 4096"});
  warnings.clear();
  decoded(lossless(cv::Mat(5, 4, CV_16UC3, cv::Scalar(4096, 0, 7)), ".png"), &warnings);
  decoded(lossless(cv::Mat(5, 4, CV_8UC3, cv::Scalar(1, 2, 3)), ".png"), &warnings);
  EXPECT_TRUE(warnings.empty());
}

TEST(ImageFormats, OfWebpMayHaveExif) {
  auto webp = lossless(picture(10, 20), ".webp");
  ASSERT_EQ(read_header(webp, 1 << 20).orientation, 1);
  const std::vector<uint8_t> exif = {'E', 'X',  'I', 'F', 26, 0, 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1,
                                     0,   0x12, 1,   3,   0,  1, 0, 0, 0,   8,   0,  0, 0, 0, 0, 0, 0};
  webp.insert(webp.end(), exif.begin(), exif.end());
  EXPECT_EQ(read_header(webp, 1 << 20).orientation, 8);
}

TEST(ImageFormats, HeadersOfFilesAreThoseOfTheirBytes) {
  const TemporaryFolder folder;
  const auto expect_same = [&](const std::vector<uint8_t>& bytes, const std::string& name) {
    const fs::path file = folder.path() / name;
    write_file(file, bytes);
    const ImageHeader of_bytes = read_header(bytes, 1 << 20), of_file = header_of(file, 1 << 20);
    EXPECT_EQ(of_file.format, of_bytes.format) << name;
    EXPECT_EQ(of_file.width, of_bytes.width) << name;
    EXPECT_EQ(of_file.height, of_bytes.height) << name;
    EXPECT_EQ(of_file.orientation, of_bytes.orientation) << name;
    return of_file.orientation;
  };
  cv::Mat noise(300, 400, CV_8UC3);  // more bytes than are read of a JPEG file's start
  cv::randu(noise, 0, 255);
  for (const std::string& ending : other_endings) expect_same(lossless(noise, ending), "a" + ending);
  expect_same(lossless(noise, ".png"), "a.png");
  auto jpeg = with_orientation(lossless(noise, ".jpg"), 6);
  EXPECT_EQ(expect_same(jpeg, "a.jpg"), 6);
  std::vector<uint8_t> segment(60002, 7);  // of a small picture, for example
  segment[0] = 0xFF, segment[1] = 0xE2, segment[2] = 60000 >> 8, segment[3] = 60000 & 255;
  for (int segments = 1; segments <= 3; ++segments) {
    jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
    EXPECT_EQ(expect_same(jpeg, say(segments, ".jpg")), 6);
  }
  write_file(folder.path() / "bad.jpg", start_of(jpeg, 1000));
  EXPECT_THROW(header_of(folder.path() / "bad.jpg", 1 << 20), BadImage);
  EXPECT_THROW(header_of(folder.path() / "a.jpg", 300 * 400 - 1), BadImage);
}

// Pillow's exif_transpose reads it where EXIF says nothing.
TEST(ImageFormats, XmpMayHoldTheOrientation) {
  const auto of = [](const std::vector<uint8_t>& bytes) { return read_header(bytes, 1 << 20).orientation; };
  const std::string attribute = "<rdf tiff:Orientation=\"6\"/>", element = "<tiff:Orientation>8</tiff:Orientation>";
  auto jpeg = lossless(picture(10, 20), ".jpg");
  const std::string segment = std::string("http://ns.adobe.com/xap/1.0/") + '\0' + attribute;
  const std::vector<uint8_t> start = {0xFF, 0xE1, 0, uint8_t(segment.size() + 2)};
  jpeg.insert(jpeg.begin() + 2, segment.begin(), segment.end());
  jpeg.insert(jpeg.begin() + 2, start.begin(), start.end());
  EXPECT_EQ(of(jpeg), 6);
  const auto exif = bytes_in_hex("ffe1002245786966000049492a0008000000010012010300010000000300000000000000");
  auto both = jpeg;
  both.insert(both.begin() + 2, exif.begin(), exif.end());
  EXPECT_EQ(of(both), 3);  // EXIF's

  auto webp = lossless(picture(10, 20), ".webp");
  append_text(webp, "XMP ");
  append_number(webp, element.size(), 4);
  append_text(webp, element);
  EXPECT_EQ(of(webp), 8);

  auto png = lossless(picture(10, 20), ".png");
  std::vector<uint8_t> chunk;
  const std::string text = std::string("XML:com.adobe.xmp") + std::string(5, '\0') + element;
  for (const int byte : {0, 0, 0, int(text.size())}) chunk.push_back(uint8_t(byte));
  append_text(chunk, "iTXt" + text + "....");  // its checksum does not count
  png.insert(png.begin() + 33, chunk.begin(), chunk.end());
  EXPECT_EQ(of(png), 8);
}

class Nested : public testing::Test {
 protected:
  Nested() {
    for (const char* split : {"train", "val"})
      for (const char* name : {"cat", "dog"}) add(std::string(split) + "/" + name + "/b.png");
    config_.data.name = "image_folder";
    config_.data.root = folder_.path().string();
    config_.data.batch = 1;
    config_.data.image_size = 32;
    config_.model.classes = 2;
  }
  void add(const std::string& name) const {
    std::string ending = fs::path(name).extension().string();
    if (ending != ".bmp" && ending != ".webp") ending = ".png";  // the bytes count, not the name
    write_file(folder_.path() / name, encoded(picture(40, 60), ending.c_str()));
  }
  TemporaryFolder folder_;
  Config config_;
};

TEST_F(Nested, FoldersOfAClassAreWalked) {
  for (const char* name :
       {"train/cat/2023/may/z.bmp", "train/cat/2023/a.webp", "train/cat/.trash/x.png", "train/cat/._b.png",
        "train/cat/notes.txt", "train/cat/README", "train/dog/old/c.GIF", "train/stray.png", "train/.DS_Store"})
    add(name);
  fs::create_directory_symlink("..", folder_.path() / "train/cat/2023/loop");
  const Datasets sets = open_datasets(config_);
  ASSERT_EQ(sets.train->size(), 4);
  EXPECT_EQ(sets.train->label(2), 0);
  EXPECT_EQ(sets.train->label(3), 1);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(pixels_of(*sets.train, i), pixels_of(*sets.test, 0));
  expect_says(sets.train->describe(), {"4 images of 2 classes",
                                       "7 other files ignored: 1 .gif, 1 .txt, 3 hidden, 1 outside of a class, "
                                       "1 without an ending"});
  EXPECT_EQ(find_images({(folder_.path() / "train/cat").string()}).size(), 3u);
}

TEST_F(Nested, FoldersAreInTheOrderOfTheirNames) {
  for (const char* name : {"train/cat/a/z.png", "train/cat/c/a.png"}) add(name);
  const ImageFiles files = find_image_files(folder_.path() / "train/cat");
  EXPECT_EQ(files.names, (std::vector<std::string>{"a/z.png", "b.png", "c/a.png"}));
}

}  // namespace
}  // namespace octet
