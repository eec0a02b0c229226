#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <opencv2/imgcodecs.hpp>

#include "kernels/base/error.h"
#include "src/report/pictures/draw_boxes.h"
#include "src/report/pictures/draw_text.h"
#include "src/report/pictures/draw_truth.h"
#include "tests/data/mats.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

const cv::Vec3b gray(90, 90, 90);

cv::Mat plain(int height, int width) { return {height, width, CV_8UC3, cv::Scalar(90, 90, 90)}; }

cv::Vec3b color(int32_t label) {
  const Rgb c = color_of_label(label);
  return {c[0], c[1], c[2]};
}
cv::Mat drawn(int height, int width, std::span<const DrawnBox> boxes) {
  const cv::Mat picture = plain(height, width);
  return mat_of(with_boxes(raster_of(picture), boxes));
}
cv::Mat letters(const std::string& text, int height) { return mat_of(letters_of_text(text, height)); }

// The rectangle of all pixels that are not gray.
cv::Rect painted(const cv::Mat& picture) {
  cv::Rect all;
  for (int y = 0; y < picture.rows; ++y)
    for (int x = 0; x < picture.cols; ++x)
      if (picture.at<cv::Vec3b>(y, x) != gray) all = all.empty() ? cv::Rect(x, y, 1, 1) : all | cv::Rect(x, y, 1, 1);
  return all;
}

TEST(DrawBoxes, DrawsAFrameAroundThePixelsOfABox) {
  const DrawnBox box = {.box = {100, 200, 300, 150}, .label = 3, .text = {}};
  const cv::Mat picture = drawn(600, 700, {&box, 1});
  ASSERT_EQ(picture.size(), cv::Size(700, 600));
  EXPECT_EQ(picture.at<cv::Vec3b>(200, 100), color(3));
  EXPECT_EQ(picture.at<cv::Vec3b>(349, 399), color(3));
  EXPECT_EQ(picture.at<cv::Vec3b>(275, 250), gray);  // the inside stays visible
  const cv::Rect frame = painted(picture), expected(100, 200, 300, 150);
  EXPECT_LE(std::abs(frame.x - expected.x), 1);  // lines are two pixels wide
  EXPECT_LE(std::abs(frame.br().x - expected.br().x), 1);
  EXPECT_LE(std::abs(frame.y - expected.y), 1);
  EXPECT_LE(std::abs(frame.br().y - expected.br().y), 1);
}

// The fonts of OpenCV know ASCII alone.
TEST(DrawBoxes, DrawsNamesBeyondAscii) {
  const auto differ = [](const cv::Mat& a, const cv::Mat& b) { return a.size() != b.size() || cv::norm(a, b) > 0; };
  const cv::Mat letter = letters("Ж", 32);
  EXPECT_GT(cv::countNonZero(letter), 20);
  EXPECT_FALSE(differ(letter, letters("Ж", 32)));
  for (const char* other : {"?", "??", "П", "\xD0", "\xEF\xBF\xBF"}) EXPECT_TRUE(differ(letter, letters(other, 32)));
  EXPECT_GT(letters("лось", 32).cols, 2 * letter.cols);
  EXPECT_GT(letters("Ж", 64).rows, 3 * letter.rows / 2);
  cv::Mat picture = plain(40, 60);
  paint(raster_of(picture), raster_of(letter), {50, -10}, {255, 0, 0});  // a part is outside
  EXPECT_GT(painted(picture).area(), 0);
  EXPECT_GE(painted(picture).x, 50);
}

TEST(DrawBoxes, FaintBoxesAreDashed) {
  DrawnBox box = {.box = {100, 200, 300, 150}, .label = 3, .text = {}};
  const auto pixels = [&] {
    int count = 0;
    const cv::Mat picture = drawn(600, 700, {&box, 1});
    for (int x = 100; x < 400; ++x) count += picture.at<cv::Vec3b>(200, x) != gray;
    return count;
  };
  EXPECT_EQ(pixels(), 300);
  box.faint = true;
  EXPECT_GT(pixels(), 100);
  EXPECT_LT(pixels(), 250);
}

TEST(DrawBoxes, EnlargesSmallPicturesAndTheirBoxes) {
  const DrawnBox box = {.box = {32, 16, 64, 32}, .label = 0, .text = {}};
  const cv::Mat picture = drawn(96, 128, {&box, 1});
  EXPECT_EQ(picture.size(), cv::Size(512, 384));
  EXPECT_EQ(picture.at<cv::Vec3b>(64, 128), color(0));
  EXPECT_EQ(picture.at<cv::Vec3b>(191, 383), color(0));
}

TEST(DrawBoxes, ClipsBoxesAndTextsToThePicture) {
  const std::string text = "a long name that no picture holds \xE2\x82\xAC\n";
  std::vector<DrawnBox> boxes = {{.box = {-50, -50, 2000, 2000}, .label = 1, .text = text},
                                 {.box = {590, 590, 100, 100}, .label = 2, .text = text},
                                 {.box = {0, 0, 1, 1}, .label = 300, .text = "x"}};
  const cv::Mat picture = drawn(600, 600, boxes);
  EXPECT_EQ(picture.size(), cv::Size(600, 600));
  EXPECT_EQ(picture.at<cv::Vec3b>(599, 300), color(1));
  boxes = {{.box = {700, 100, 50, 50}, .label = 0, .text = "outside"},
           {.box = {-60, 10, 50, 50}, .label = 0, .text = "too"}};
  EXPECT_TRUE(painted(drawn(600, 600, boxes)).empty());
  boxes = {{.box = {0, 0, 10, 10}, .label = 0, .text = text}};
  drawn(1, 1, boxes);  // no room for anything
}

TEST(DrawBoxes, TextsDoNotHideEachOther) {
  // Three equal boxes: the background of each text has its class's color.
  std::vector<DrawnBox> boxes;
  for (int32_t label = 0; label < 3; ++label) boxes.push_back({{200, 200, 200, 100}, label, "name"});
  const cv::Mat picture = drawn(600, 600, boxes);
  for (int32_t label = 0; label < 3; ++label) {
    int pixels = 0;
    for (int y = 0; y < 600; ++y)
      for (int x = 0; x < 600; ++x) pixels += picture.at<cv::Vec3b>(y, x) == color(label);
    EXPECT_GT(pixels, 200) << label;
  }
}

TEST(DrawBoxes, NeighbouringLabelsHaveOtherColors) {
  for (int32_t a = 0; a < 100; ++a)
    for (int32_t b = a + 1; b < a + 6; ++b)
      EXPECT_GT(cv::norm(cv::Vec3i(color(a)) - cv::Vec3i(color(b))), 80) << a << ' ' << b;
}

class DrawnFiles : public testing::Test {
 protected:
  DrawnFiles() : folder_(fs::temp_directory_path() / say("octet-draw-", getpid())) {}
  ~DrawnFiles() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(DrawnFiles, ArePngInTheOrderOfRgb) {
  fs::create_directories(folder_);
  const std::string file = (folder_ / "a.png").string();
  const cv::Mat picture(3, 4, CV_8UC3, cv::Scalar(10, 20, 30));
  write_picture(file, raster_of(picture));
  const cv::Mat bgr = cv::imread(file);
  ASSERT_EQ(bgr.size(), cv::Size(4, 3));
  EXPECT_EQ(bgr.at<cv::Vec3b>(1, 1), cv::Vec3b(30, 20, 10));
  const cv::Mat left = plain(100, 80), right = plain(120, 90);
  const Raster both = side_by_side(raster_of(left), "predicted", raster_of(right), "annotated");
  EXPECT_GT(both.rows, 120);
  EXPECT_GE(both.cols, 170);
}

TEST_F(DrawnFiles, SpreadOverTheDataSet) {
  Config config;
  config.data.name = "shapes_detection";
  config.data.samples = 64;
  config.data.batch = 8;
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  };
  EXPECT_EQ(draw_truth(config, {.output = folder_.string(), .count = 4}), 4);
  EXPECT_EQ(names(), (std::vector<std::string>{"000000-000000000001.png", "000002-000000000003.png",
                                               "000004-000000000005.png", "000006-000000000007.png"}));
  EXPECT_EQ(draw_truth(config, {.output = folder_.string(), .count = 1000, .train = true, .augmented = true}), 64);
  EXPECT_EQ(names().size(), 64u);
  EXPECT_EQ(cv::imread((folder_ / "000063-000000000064.png").string()).size(), cv::Size(512, 512));
  config.data.name = "shapes";
  EXPECT_THROW(draw_truth(config, {.output = folder_.string()}), UsageError);
}

}  // namespace
}  // namespace octet
