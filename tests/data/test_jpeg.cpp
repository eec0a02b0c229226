// JPEG files that libjpeg warns of: whether pixels are missing decides, and not the warning.
#include <opencv2/imgproc.hpp>

#include "src/data/images/image_files.h"
#include "tests/data/decoded.h"
#include "tests/data/files.h"

namespace octet {
namespace {

using JpegBytes = std::vector<uint8_t>;

constexpr int huffman = 0xC4, restart = 0xD0, end_of_image = 0xD9, scan = 0xDA, quantization = 0xDB;

JpegBytes jpeg_of_noise(const std::vector<int>& options = {}) {
  cv::Mat noise(64, 64, CV_8UC3);
  cv::theRNG().state = 1;
  cv::randu(noise, 0, 255);
  cv::GaussianBlur(noise, noise, {}, 2);
  JpegBytes jpeg;
  cv::imencode(".jpg", noise, jpeg, options);
  return jpeg;
}

// Where a mark is, from `from` on. A byte 0xFF of the pixels has a 0 behind it.
size_t find_mark(const JpegBytes& jpeg, int mark, size_t from = 2) {
  for (size_t at = from; at + 1 < jpeg.size(); ++at)
    if (jpeg[at] == 0xFF && jpeg[at + 1] == mark) return at;
  ADD_FAILURE() << "no mark " << mark;
  return 0;
}

// Marks, with their data, of the scans of a progressive file.
struct Scan {
  size_t begin, end;
  int first;    // of its coefficients
  int refines;  // the bit that an earlier scan ended with; 0: none
};
std::vector<Scan> scans_of(const JpegBytes& jpeg) {
  std::vector<Scan> scans;
  for (size_t at = 2; at + 3 < jpeg.size();) {
    const bool is_mark = jpeg[at] == 0xFF && jpeg[at + 1] != 0 && (jpeg[at + 1] & 0xF8) != restart;
    if (is_mark && !scans.empty() && scans.back().end == 0) scans.back().end = at;
    if (!is_mark) {
      ++at;
      continue;
    }
    const size_t length = jpeg[at + 2] << 8 | jpeg[at + 3], last = at + 2 + length;
    if (jpeg[at + 1] == scan) scans.push_back({at, 0, jpeg[last - 3], jpeg[last - 1] >> 4});
    at = last;
  }
  if (scans.back().end == 0) scans.back().end = jpeg.size() - 2;
  return scans;
}

JpegBytes with(JpegBytes jpeg, size_t at, const JpegBytes& inserted) {
  jpeg.insert(jpeg.begin() + ptrdiff_t(at), inserted.begin(), inserted.end());
  return jpeg;
}
JpegBytes without(JpegBytes jpeg, const Scan& part) {
  jpeg.erase(jpeg.begin() + ptrdiff_t(part.begin), jpeg.begin() + ptrdiff_t(part.end));
  return jpeg;
}

void expect_warns(const JpegBytes& odd, const JpegBytes& usual, const char* warning) {
  std::vector<std::string> warnings;
  EXPECT_EQ(decoded(odd, &warnings), decoded(usual)) << warning;
  ASSERT_FALSE(warnings.empty()) << warning;
  expect_says(warnings[0], {warning});
}

TEST(Jpeg, StrayBytesBeforeAMarkAreHarmless) {
  const JpegBytes stray = {0, 1, 2, 0xFF, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // more than a decoder reads ahead
  const auto jpeg = jpeg_of_noise(), marked = jpeg_of_noise({cv::IMWRITE_JPEG_RST_INTERVAL, 2});
  for (const int mark : {huffman, quantization, scan, end_of_image})
    expect_warns(with(jpeg, find_mark(jpeg, mark), stray), jpeg, "extraneous bytes before marker");
  for (const int mark : {restart, restart + 1, restart + 6, end_of_image})
    expect_warns(with(marked, find_mark(marked, mark), stray), marked, "extraneous bytes before marker");
  JpegBytes all = marked;  // before each mark from the first scan on
  for (size_t at = all.size() - 1; at-- > find_mark(marked, scan) + 14;)
    if (all[at] == 0xFF && all[at + 1] != 0) all = with(all, at, stray);
  expect_warns(all, marked, "extraneous bytes before marker");
}

TEST(Jpeg, OtherParametersOfASequentialScanAreHarmless) {
  const auto jpeg = jpeg_of_noise();
  const size_t parameters = find_mark(jpeg, scan) + 4 + 1 + 3 * 2;
  ASSERT_EQ(JpegBytes(jpeg.begin() + ptrdiff_t(parameters), jpeg.begin() + ptrdiff_t(parameters) + 3),
            (JpegBytes{0, 63, 0}));
  for (const auto& [first, last, bits] :
       std::vector<std::array<uint8_t, 3>>{{0, 0, 0}, {1, 63, 0}, {0, 63, 0x21}, {5, 200, 255}}) {
    auto odd = jpeg;
    odd[parameters] = first;
    odd[parameters + 1] = last;
    odd[parameters + 2] = bits;
    expect_warns(odd, jpeg, "Invalid SOS parameters");
  }
}

TEST(Jpeg, OtherHeadersAreHarmless) {
  const auto jpeg = jpeg_of_noise();
  ASSERT_EQ(std::string(jpeg.begin() + 6, jpeg.begin() + 10), "JFIF");
  auto version = jpeg;
  version[11] = 2;  // 2.01
  expect_warns(version, jpeg, "unknown JFIF revision");
  version.resize(version.size() * 3 / 4);
  reason_of(version, ImageFault::damaged);
  JpegBytes adobe = jpeg;  // its header instead of JFIF's; its last byte says how colours are meant
  adobe.erase(adobe.begin() + 2, adobe.begin() + 20);
  adobe = with(adobe, 2, {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 7});
  expect_warns(adobe, jpeg, "Unknown Adobe color transform");
}

TEST(Jpeg, BytesToDecode) {
  const cv::Mat picture(80, 120, CV_8UC3, cv::Scalar(10, 20, 30));
  const auto header = [&](const std::vector<int>& options) {
    JpegBytes jpeg;
    cv::imencode(".jpg", picture, jpeg, options);
    return read_header(jpeg, 1 << 20);
  };
  ImageHeader plain = header({});
  EXPECT_EQ(bytes_to_decode(plain, 1), 3 * 120 * 80);
  EXPECT_EQ(bytes_to_decode(plain, 0.5), 3 * 60 * 40);
  EXPECT_EQ(bytes_to_decode(plain, 0.51), 3 * 75 * 50) << "5/8";
  plain.orientation = 6;
  EXPECT_EQ(bytes_to_decode(plain, 1), 2 * 3 * 120 * 80) << "as stored and upright";
  // 15 x 10 blocks of brightness, and 8 x 5 of each colour, of 64 coefficients of 2 bytes.
  const ImageHeader progressive = header({cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  EXPECT_EQ(bytes_to_decode(progressive, 1), 3 * 120 * 80 + (15 * 10 + 2 * 8 * 5) * 128);
}

TEST(Jpeg, ScansMayComeAgainButNotBeMissing) {
  const auto jpeg = jpeg_of_noise({cv::IMWRITE_JPEG_PROGRESSIVE, 1});
  const std::vector<Scan> scans = scans_of(jpeg);
  ASSERT_GE(scans.size(), 8u);
  EXPECT_NO_THROW(decoded(jpeg));
  int again = 0;
  for (const Scan& each : scans) {
    if (each.refines > 0) continue;
    expect_says(reason_of(without(jpeg, each), ImageFault::damaged), {"Inconsistent progression sequence"});
    if (each.first == 0) continue;
    ++again;
    const JpegBytes copy(jpeg.begin() + ptrdiff_t(each.begin), jpeg.begin() + ptrdiff_t(each.end));
    expect_warns(with(jpeg, each.end, copy), jpeg, "Inconsistent progression sequence");
  }
  EXPECT_GE(again, 3);
  JpegBytes no_means = jpeg;
  for (size_t i = scans.size(); i-- > 0;)
    if (scans[i].first == 0) no_means = without(no_means, scans[i]);
  expect_says(reason_of(no_means, ImageFault::damaged), {"a scan is missing"});
}

TEST(Jpeg, MissingPixelsAreDamage) {
  const auto jpeg = jpeg_of_noise(), marked = jpeg_of_noise({cv::IMWRITE_JPEG_RST_INTERVAL, 2});
  const size_t pixels = find_mark(jpeg, scan) + 14;
  for (size_t size = pixels; size < jpeg.size(); size += 1 + (jpeg.size() - size) / 50)
    reason_of(start_of(jpeg, size), ImageFault::damaged);
  for (size_t at = pixels + 5; at < jpeg.size() - 6; at += 7) {  // the rest is missing, the mark of the end is not
    auto cut = start_of(jpeg, at);
    if (cut.back() == 0xFF) cut.pop_back();
    cut.insert(cut.end(), {0xFF, end_of_image});
    expect_says(reason_of(cut, ImageFault::damaged), {"premature end of data"});
  }
  auto unmarked = marked, other = marked;
  const size_t third = find_mark(marked, restart + 2);
  unmarked.erase(unmarked.begin() + ptrdiff_t(third), unmarked.begin() + ptrdiff_t(third) + 2);
  reason_of(unmarked, ImageFault::damaged);
  other[third + 1] = restart + 5;
  reason_of(other, ImageFault::damaged);
  const size_t last = find_mark(marked, restart + 6);
  JpegBytes lost = marked;  // the last part, and its mark
  lost.erase(lost.begin() + ptrdiff_t(last), lost.end() - 2);
  reason_of(lost, ImageFault::damaged);
}

// Made of (5 x, 5 y, 2 (x + y)) by `cjpeg -quality 85 -optimize -sample 4x2,1x1,1x1` and `2x2,2x1,1x1`.
TEST(Jpeg, ChromaOfAnySamplingIsRead) {
  for (const char* name : {"chroma_4x2.jpg", "chroma_mixed.jpg"}) {
    const auto bytes = read_image_file(OCTET_SOURCE_DIR "/tests/data/" + std::string(name), 1 << 20);
    const cv::Mat image = mat_of(decode(bytes, read_header(bytes, 1 << 20), 1));
    ASSERT_EQ(image.size(), cv::Size(48, 48)) << name;
    double error = 0;
    for (int y = 0; y < 48; ++y)
      for (int x = 0; x < 48; ++x)
        for (const int c : {0, 1, 2})
          error += std::abs(image.at<cv::Vec3b>(y, x)[c] - (c == 0 ? 5 * x : c == 1 ? 5 * y : 2 * (x + y)));
    EXPECT_LT(error / (48 * 48 * 3), 6) << name;
  }
}

}  // namespace
}  // namespace octet
