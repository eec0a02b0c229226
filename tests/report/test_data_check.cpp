// The page of `octet check`, and what `octet eval --detections` prints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <opencv2/imgcodecs.hpp>
#include <sstream>

#include "kernels/base/error.h"
#include "src/models/detectors.h"
#include "src/report/check/data_check.h"
#include "src/tasks/detection/figures.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

std::string encoded(const char* ending, const cv::Mat& image) {
  std::vector<uint8_t> bytes;
  cv::imencode(ending, image, bytes);
  return {bytes.begin(), bytes.end()};
}

// `mark` makes its bytes its own.
std::string png(int width, int height, char mark) {
  return encoded(".png", cv::Mat(height, width, CV_8UC3, cv::Scalar(uint8_t(mark), 100, 200)));
}

// With EXIF data that say how the picture is turned: orientation 3 or 6.
std::string turned(int width, int height, char mark, int orientation) {
  std::string bytes = png(width, height, mark);
  const std::string sum(orientation == 3 ? "\x3F\xE4\x61\xB9" : "\x39\x2F\xA3\x52", 4);
  bytes.insert(33, std::string("\0\0\0\x16"
                               "eXIfMM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0",
                               27) +
                       char(orientation) + std::string(2, '\0') + sum);  // after the first chunk
  return bytes;
}

class DataCheckPage : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("octet-check-" + std::to_string(getpid()));
    fs::remove_all(root_);
    for (const char* folder : {"annotations", "train2017", "val2017"}) fs::create_directories(root_ / folder);
    annotate("train",
             "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 10], 'area': 90},"
             "{'id': 2, 'image_id': 1, 'category_id': 2, 'bbox': [50, 2, 40, 90], 'iscrowd': 1, 'area': 9}");
    annotate("val", "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 10], 'area': 90}");
    for (const char* split : {"train", "val"})
      for (const char* name : {"a", "b"}) write(say(split, "2017/", name, ".png"), png(80, 60, split[0] + name[0]));
    config_.data.name = "coco";
    config_.data.root = root_.string();
    config_.model.classes = 2;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }
  void annotate(const std::string& split, const std::string& annotations,
                const std::string& classes = "cat dog") const {
    const size_t gap = classes.find(' ');
    std::string json =
        "{'images': [{'id': 1, 'file_name': 'a.png', 'width': 80, 'height': 60},"
        "{'id': 2, 'file_name': 'b.png'}], 'categories': [{'id': 1, 'name': '" +
        classes.substr(0, gap) + "'}, {'id': 2, 'name': '" + classes.substr(gap + 1) + "'}], 'annotations': [" +
        annotations + "]}";
    std::ranges::replace(json, '\'', '"');
    write("annotations/instances_" + split + "2017.json", json);
  }
  void expect_line(const std::string& line) const {
    EXPECT_NE(check_.page.find(line), std::string::npos) << line << " in\n" << check_.page;
  }
  // The page has this row with these numbers of both splits.
  void expect_row(const std::string& name, int train, int test) const {
    std::string row = name + std::string(32 - name.size(), ' ');
    for (const int number : {train, test})
      row += std::string(10 - std::to_string(number).size(), ' ') + std::to_string(number);
    expect_line(row + "\n");
  }
  void expect_one_error(const std::string& part) {
    check_ = check_data(config_);
    ASSERT_EQ(check_.errors.size(), 1u) << testing::PrintToString(check_.errors);
    EXPECT_NE(check_.errors[0].find(part), std::string::npos) << check_.errors[0];
  }

  fs::path root_;
  Config config_;
  DataCheck check_;
};

TEST_F(DataCheckPage, CountsWhatIsThere) {
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  expect_row("images", 2, 2);
  expect_row("images without objects", 1, 1);
  expect_row("objects", 2, 1);
  expect_row("  crowds (never train)", 1, 0);
  expect_row("  cat", 1, 1);
  expect_row("  dog", 1, 0);
  expect_row("  80x60", 2, 2);
  expect_row("  8 to 16", 1, 1);
  expect_row("  32 to 64", 1, 0);
  expect_line("classes without objects in test: 1: dog");
  expect_line("train: over the edge of the image, and clipped there for training: 1");
  expect_line("train2017/a.png: object 2 (dog): x 50, y 2, width 40, height 90 on 80x60");
  expect_line("the same image in both splits: 0");
}

// The images have 80x60 pixels. Each split has one object that trains, 10 x 10 pixels around (6, 7).
TEST_F(DataCheckPage, ShowsHowADetectorFits) {
  config_.model.name = "retinanet";
  config_.data.short_side = 60;
  config_.data.canvas_heights = {64, 96}, config_.data.canvas_widths = {96, 96};
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  expect_row("  64x96", 2, 2);
  expect_row("  96x96", 0, 0);
  expect_line("filled by images                    78.1 %    78.1 %\n");
  expect_row("images reduced to fit", 0, 0);
  expect_line(
      "objects that an anchor overlaps by 0.5 or more\n"
      "  all                                0.0 %     0.0 %\n");
  expect_line("  dog                                    -         -\n");
  expect_line("  cat                                 10      10      10      10      10\n");
  expect_line("that fit them: model.anchor_sizes: [8, 8, 8, 8, 8]\n");
  ASSERT_EQ(check_.warnings.size(), 1u);
  EXPECT_NE(check_.warnings[0].find("most objects of cat overlap no anchor by 0.5"), std::string::npos);
  // The nearest center is (8, 8), and an anchor of 10 x 10 there overlaps the object by 72 / 128.
  config_.model.anchor_sizes = {10, 20, 40};
  check_ = check_data(config_);
  expect_line("  all                              100.0 %   100.0 %\n");
  EXPECT_TRUE(check_.warnings.empty());
  config_.data.canvas_heights = {32}, config_.data.canvas_widths = {32};
  check_ = check_data(config_);
  expect_row("images reduced to fit", 2, 2);
}

TEST_F(DataCheckPage, WarnsOfCornersAndOfClassesThatDoNotTrain) {
  std::string corners;
  for (int i = 0; i < 8; ++i)
    corners += say(i == 0 ? "" : ", ", "{'id': ", i + 1, ", 'image_id': 1, 'category_id': 1, 'area': 90, 'bbox': [",
                   40 + i, ", 30, ", 60 + i, ", 50]}");
  annotate("train", corners);
  annotate("val", "{'id': 1, 'image_id': 1, 'category_id': 2, 'bbox': [1, 2, 10, 10], 'area': 90}");
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  ASSERT_EQ(check_.warnings.size(), 2u) << testing::PrintToString(check_.warnings);
  EXPECT_NE(check_.warnings[0].find("8 of 8 boxes of train reach over the edge"), std::string::npos);
  EXPECT_NE(check_.warnings[1].find("of a class that test has: dog"), std::string::npos);
}

TEST_F(DataCheckPage, CountsObjectsThatTheCanvasLoses) {
  config_.model.name = "retinanet";
  config_.model.anchor_sizes = {10, 20, 40};
  config_.data.canvas_heights = {64}, config_.data.canvas_widths = {96};
  annotate("train",
           "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 10], 'area': 90},"
           "{'id': 2, 'image_id': 1, 'category_id': 2, 'bbox': [50, 2, 0.5, 0.5], 'area': 9}");
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  expect_line("objects without a pixel on the canvas");
  expect_row("  dog", 1, 0);
  ASSERT_EQ(check_.warnings.size(), 1u) << testing::PrintToString(check_.warnings);
  EXPECT_NE(check_.warnings[0].find("1 of 2 objects of train have no pixel"), std::string::npos);
  annotate("train", "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [0.1, 0.2, 0.3, 0.25], 'area': 0.1}");
  expect_one_error("no object of train has a pixel in each direction on its canvas: give boxes in pixels");
}

// The page looks at the nearest anchors alone. Here every anchor whose center is on the image is tried.
TEST_F(DataCheckPage, ShareOfFoundObjectsIsThatOfAllAnchors) {
  config_.model.name = "retinanet";
  config_.model.anchor_sizes = {8, 16, 24};
  config_.data.canvas_heights = {64}, config_.data.canvas_widths = {96};
  std::vector<AnchorLevel> levels = anchors_of(config_).levels;
  for (AnchorLevel& level : levels) level.height = int64_t(64 / level.stride), level.width = int64_t(96 / level.stride);
  const std::vector<Box> anchors = make_anchors(levels);
  std::string annotations;
  int found = 0;
  constexpr int boxes = 200;
  for (int i = 0; i < boxes; ++i) {
    const int x = i * 37 % 70, y = i * 23 % 50, width = 4 + i * 7 % (76 - x), height = 4 + i * 5 % (56 - y);
    annotations += say(i == 0 ? "" : ", ", "{'id': ", i + 1, ", 'image_id': 1, 'category_id': 1, 'area': 1, 'bbox': [",
                       x, ", ", y, ", ", width, ", ", height, "]}");
    const Box box{float(x), float(y), float(x + width), float(y + height)};
    found += std::ranges::any_of(anchors, [&](const Box& anchor) {
      return anchor.center_x() < 80 && anchor.center_y() < 60 && overlap_of(anchor, box) >= 0.5f;
    });
  }
  annotate("train", annotations);
  check_ = check_data(config_);
  EXPECT_GT(found, boxes / 4);
  EXPECT_LT(found, boxes * 3 / 4);
  expect_line("  all" + std::string(31, ' ') + say(found / 2, found % 2 == 0 ? ".0 %" : ".5 %"));
}

TEST_F(DataCheckPage, ReportsImpossibleAnchorsAndCanvases) {
  config_.model.name = "retinanet";
  expect_one_error("size of the network's input");
  config_.data.short_side = 60, config_.data.long_side = 80;
  config_.model.anchor_sizes = {10};
  expect_one_error("model.anchor_sizes has 1 entries");
}

TEST_F(DataCheckPage, NamesBadBoxes) {
  std::string annotations;
  for (int i = 1; i <= 5; ++i)
    annotations += say(i == 1 ? "" : ", ", "{'id': ", i, ", 'image_id': 1, 'category_id': 1, 'bbox': [", i,
                       ", 2, 0, 9], 'area': 1}");
  annotate("train", annotations + ", {'id': 9, 'image_id': 1, 'category_id': 2, 'bbox': [1, 1, 5, 5], 'area': 25}");
  expect_one_error("5 bad boxes in train (width or height is not positive)");
  expect_line("train: bad, width or height is not positive: 5\n");
  expect_line("object 3 (cat): x 3, y 2, width 0, height 9 on 80x60");
  EXPECT_EQ(check_.page.find("object 4"), std::string::npos) << "three examples are enough";
  config_.data.bad_boxes = "drop";
  EXPECT_TRUE(check_data(config_).errors.empty());
}

TEST_F(DataCheckPage, ComparesBoxesWithTheImageItself) {
  write("train2017/a.png", png(45, 60, 'x'));
  check_ = check_data(config_);
  ASSERT_EQ(check_.errors.size(), 2u) << testing::PrintToString(check_.errors);
  EXPECT_NE(check_.errors[0].find("1 bad boxes in train (outside of the image)"), std::string::npos);
  EXPECT_NE(check_.errors[1].find("1 images of train have another size than annotated"), std::string::npos);
  expect_line("train: of another size than annotated: 1\n");
  expect_line("train2017/a.png: the image has 45 x 60 pixels, and its annotation says 80 x 60");
  config_.data.bad_boxes = "drop", config_.data.bad_images = "skip";
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  ASSERT_EQ(check_.warnings.size(), 2u) << testing::PrintToString(check_.warnings);
  EXPECT_NE(check_.warnings[0].find("1 bad boxes in train (outside of the image)"), std::string::npos);
  EXPECT_NE(check_.warnings[1].find("1 images of train have another size than annotated, and are skipped"),
            std::string::npos);
}

TEST_F(DataCheckPage, NamesPhotographsThatAreStoredTurned) {
  write("train2017/a.png", turned(60, 80, 'x', 6));  // annotated as 80 x 60
  write("val2017/b.png", turned(60, 80, 'y', 6));    // without a size
  expect_one_error("val2017/b.png (one of 1 such images) is stored turned or mirrored");
  EXPECT_NE(check_.errors[0].find("set data.turn_upright to true if"), std::string::npos) << check_.errors[0];
  expect_line("train: turned upright as EXIF says, for their boxes: 1\n  " + (root_ / "train2017/a.png").string());
  expect_line("test: stored turned or mirrored, their annotations fit both views: 1\n  " +
              (root_ / "val2017/b.png").string());
  config_.data.turn_upright = "true";
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  expect_row("  80x60", 2, 2);
  config_.data.turn_upright = "false";
  expect_one_error("1 images of train have another size than annotated: set data.turn_upright: auto");
}

TEST_F(DataCheckPage, OtherPhotographsOfASplitSayWhatBoxesMean) {
  write("val2017/a.png", turned(60, 80, 'x', 6));
  write("val2017/b.png", turned(60, 80, 'y', 6));
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  EXPECT_TRUE(check_.warnings.empty()) << check_.warnings[0];
  expect_line("test: turned upright as EXIF says, for their boxes: 2\n");
  expect_line("test: stored turned or mirrored, their annotations fit both views, read upright as the others: 1\n");
  expect_row("  80x60", 2, 2);
  write("val2017/a.png", turned(80, 60, 'x', 6));  // annotated as it is stored
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  expect_line("test: stored turned or mirrored, their annotations fit both views, read as stored as the others: 1\n");
  expect_row("  60x80", 0, 1);
  write("val2017/a.png", turned(80, 60, 'x', 3));
  config_.data.bad_images = "skip";
  expect_one_error("val2017/a.png (one of 2 such images)");
}

// Every image is decoded.
TEST_F(DataCheckPage, ListsDamagedImagesAndWarningsOfTheDecoder) {
  check_ = check_data(config_);
  EXPECT_TRUE(check_.warnings.empty()) << check_.warnings[0];
  expect_line("test: complete, but the decoder warns: 0\n");
  write("train2017/a.png", encoded(".png", cv::Mat(60, 80, CV_16UC1, cv::Scalar(4000))));
  std::string jpeg = encoded(".jpg", cv::Mat(60, 80, CV_8UC3, cv::Scalar(1, 2, 3)));
  jpeg.insert(jpeg.size() - 2, 30, '\1');  // before the mark of the end
  write("train2017/b.png", jpeg);
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  expect_line("train: complete, but the decoder warns: 2\n");
  expect_line("train2017/a.png: its 16-bit values are all below 4096");
  expect_line("extraneous bytes before marker 0xd9");
  expect_line("train: named as another format, and read as what they are: 1\n");
  ASSERT_EQ(check_.warnings.size(), 1u) << testing::PrintToString(check_.warnings);
  EXPECT_NE(check_.warnings[0].find("the decoder warns of 2 images of train: "), std::string::npos);
  const std::string whole = png(80, 60, 'x');
  write("train2017/a.png", whole.substr(0, whole.size() - 20));
  expect_one_error("1 image files of train are missing or unreadable");
}

TEST_F(DataCheckPage, NamesImagesThatAreMissingOrUnreadable) {
  fs::remove(root_ / "train2017/b.png");
  write("train2017/a.png", "GIF89a");
  expect_one_error("2 image files of train are missing or unreadable");
  expect_line("a.png: neither JPEG nor PNG");
  expect_line("b.png: No such file or directory");
  config_.data.bad_images = "skip";
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  ASSERT_EQ(check_.warnings.size(), 1u) << testing::PrintToString(check_.warnings);
  EXPECT_NE(check_.warnings[0].find("2 image files of train are missing or unreadable, and are skipped"),
            std::string::npos);
}

TEST_F(DataCheckPage, FindsImagesThatAreThereTwice) {
  fs::copy_file(root_ / "train2017/b.png", root_ / "val2017/a.png", fs::copy_options::overwrite_existing);
  fs::copy_file(root_ / "train2017/b.png", root_ / "train2017/a.png", fs::copy_options::overwrite_existing);
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty());
  expect_line("the same image in both splits: 1\n");
  expect_line("train2017/a.png = " + (root_ / "val2017/a.png").string());
  ASSERT_EQ(check_.warnings.size(), 1u);
  EXPECT_NE(check_.warnings[0].find("1 images of test are images of train too"), std::string::npos);
  expect_line("the same image twice in a split: 1\n");
}

TEST_F(DataCheckPage, ComparesClasses) {
  config_.model.classes = 5;
  expect_one_error("set model.classes to 2, or to 0");
  config_.model.classes = 0;
  EXPECT_TRUE(check_data(config_).errors.empty());
  annotate("val", "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 10], 'area': 90}", "cat fish");
  expect_one_error("not in the training set: fish");
  annotate("val", "{'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 10], 'area': 90}", "dog cat");
  check_ = check_data(config_);
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  expect_row("  cat", 1, 0);  // by name, whatever the id
  expect_row("  dog", 1, 1);
  annotate("val", "");
  expect_one_error("no object to find in test");
}

TEST(DetectionResults, AreATableAnObjectAndLines) {
  DetectionFigures judged{{{"mAP", 0.25}, {"mAP11", -1}},
                          {{"cat", 12, {{"AP", 0.25}}, {}, {0.5, 0.75, 0.6, 0.625}},
                           {"tyrannosaurus", 0, {{"AP", -1}}},
                           {"dog", 3, {{"AP", 0.5}}, {}, {-1, 0, 0, 0}}}};
  judged.at_one_score = {0.25, 0.5, 0.75, 0.6};
  EXPECT_EQ(detection_table(judged),
            "mAP     0.2500\n"
            "mAP11  -1.0000\n"
            "\n"
            "class  objects      AP  precision  recall      F1  score\n"
            "cat         12  0.2500     0.7500  0.6000  0.6250  0.500\n"
            "dog          3  0.5000     0.0000  0.0000  0.0000      -\n"
            "at one score for all       0.5000  0.7500  0.6000  0.250\n"
            "no object that counts, and so in no mean: tyrannosaurus\n");
  EXPECT_EQ(detection_json({judged.figures, {}}), R"({"mAP":0.25,"mAP11":-1.0})");
  const auto object = nlohmann::json::parse(detection_json(judged));
  EXPECT_EQ(object.at("by_class").dump(), R"({"cat":0.25,"dog":0.5})");
  EXPECT_EQ(object.at("at_one_score").dump(), R"({"F1":0.6,"precision":0.5,"recall":0.75,"score":0.25})");
  EXPECT_EQ(object.at("classes").at(0).dump(),
            R"({"AP":0.25,"F1":0.625,"class":"cat","objects":12,"precision":0.75,"recall":0.6,"score":0.5})");
  EXPECT_EQ(detection_csv(judged),
            "class,objects,AP,precision,recall,F1,score\r\n"
            "cat,12,0.250000,0.750000,0.600000,0.625000,0.500000\r\n"
            "tyrannosaurus,0,,,,,\r\n"
            "dog,3,0.500000,0.000000,0.000000,0.000000,\r\n");
}

// With the longest names and 31 classes.
TEST(DetectionResults, FitATerminal) {
  DetectionFigures judged{{{"AP", 0.5}}, {}};
  for (int i = 0; i < 31; ++i)
    judged.classes.push_back(
        {std::string(60, 'x') + std::to_string(i), 5, {{"AP", i / 31.0}, {"AP50", 0.5}}, {}, {1, 1, 1, 1}});
  judged.at_one_score = {1, 1, 1, 1};
  const std::string table = detection_table(judged);
  std::istringstream stream(table);
  for (std::string line; std::getline(stream, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(table.find("\n...\n"), table.npos);
  EXPECT_NE(table.find("15 classes are shown, the least AP first; --csv FILE writes all of them\n"), table.npos);
}

}  // namespace
}  // namespace octet
