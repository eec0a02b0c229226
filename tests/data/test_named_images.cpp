#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "src/data/images/normalization.h"
#include "src/data/sources/named_images.h"
#include "tests/data/annotated.h"
#include "tests/data/files.h"

namespace octet {
namespace {

class NamedFiles : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
  const Classes classes_{.names = {"cat", "dog"}, .category_ids = {3, 7}};
};

TEST_F(NamedFiles, OfFoldersAreTheImagesBelowThem) {
  for (const char* name : {"b/2.JPG", "b/10.png", "b/c/d/1.jpeg", "b/notes.txt", "b/.hidden/3.jpg", "b/.4.jpg", "any"})
    write_text(at(name), "x");
  std::filesystem::create_directories(at("empty/.hidden"));
  EXPECT_EQ(find_images({at("any"), at("b")}),
            (std::vector<std::string>{at("any"), at("b/10.png"), at("b/2.JPG"), at("b/c/d/1.jpeg")}));
  expect_says(message_of<UsageError>([&] { find_images({at("b"), at("absent")}); }), {"absent: there is no such"});
  expect_says(message_of<UsageError>([&] { find_images({at("empty")}); }),
              {"empty holds no .jpg, .jpeg, .png, .bmp, .webp, .tif, .tiff, .ppm or .pgm file"});
}

TEST_F(NamedFiles, OfADetectorAreOnCanvases) {
  write_file(at("wide.png"), encoded(picture(60, 80), ".png"));
  write_file(at("high.png"), encoded(picture(80, 60), ".png"));
  write_file(at("bad.png"), {1, 2, 3});
  Config config;
  config.data.name = "coco";
  config.data.root = at("absent");  // no annotation is read
  config.data.canvas_heights = {64, 96};
  config.data.canvas_widths = {96, 64};
  const auto data = open_named_images(config, {at("wide.png"), at("bad.png"), at("high.png")}, classes_);
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->canvases(), 2);
  EXPECT_EQ(data->classes(), 2);
  const Annotations& images = *data->annotations();
  EXPECT_EQ(images.images[2].id, 3);
  EXPECT_EQ(images.images[2].name, "high.png");
  EXPECT_EQ(images.images[2].path, at("high.png"));
  EXPECT_NE(data->canvas(0), data->canvas(2));
  std::vector<uint8_t> pixels = room_for({64, 96});
  Truth truth;
  EXPECT_TRUE(data->read_with_truth(0, false, 1, 0, pixels.data(), truth));
  EXPECT_EQ(pixels[0], 255);  // red
  EXPECT_FALSE(data->read_with_truth(1, false, 1, 0, pixels.data(), truth));
  EXPECT_EQ(data->skipped(), 1);
  ASSERT_EQ(truth.images.size(), 1u);
  EXPECT_EQ(truth.images[0].count, 0u);

  const auto chosen = selected(*data, {2});
  ASSERT_EQ(chosen->size(), 1);
  EXPECT_EQ(chosen->canvas(0), data->canvas(2));
  truth = {};
  EXPECT_TRUE(chosen->read_with_truth(0, false, 1, 0, pixels.data(), truth));
  EXPECT_EQ(truth.images[0].index, 0) << "samples are counted within what was selected";
  EXPECT_EQ(truth.images[0].height, 80);
}

TEST_F(NamedFiles, OfADetectorAreReadAsStoredWithAWarning) {
  write_file(at("a.jpg"), encoded(picture(60, 80), ".jpg"));
  for (const char* name : {"b.jpg", "c.jpg"})
    write_file(at(name), with_orientation(encoded(picture(60, 80), ".jpg"), 6));
  Config config;
  config.data.name = "coco";
  config.data.root = at("absent");
  config.data.canvas_heights = {96}, config.data.canvas_widths = {96};
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  const auto open = [&](const char* turn_upright) {
    log.str("");
    config.data.turn_upright = turn_upright;
    return open_named_images(config, {at("a.jpg"), at("b.jpg"), at("c.jpg")}, classes_)->annotations()->images[1].width;
  };
  EXPECT_EQ(open("auto"), 80);
  expect_says(log.str(), {"b.jpg is stored turned", "set data.turn_upright to true"});
  EXPECT_EQ(log.str().find("c.jpg"), std::string::npos);
  EXPECT_EQ(open("true"), 60);
  EXPECT_EQ(log.str(), "");
  EXPECT_EQ(open("false"), 80);
  EXPECT_EQ(log.str(), "");
  spdlog::set_default_logger(before);
}

TEST_F(NamedFiles, OfAClassifierAreMiddleSquares) {
  write_file(at("a.png"), encoded(picture(32, 48), ".png"));
  Config config;
  config.data.name = "shapes";
  const auto data = open_named_images(config, {at("a.png"), at("absent.png")}, classes_);
  std::vector<uint8_t> pixels = room_for({32, 32});
  EXPECT_TRUE(data->read(0, false, 1, 0, pixels.data()));
  // Of 48 columns the middle 32, red in the left half; no pixel is resized.
  EXPECT_EQ(pixels[15 * 4], 255);
  EXPECT_EQ(pixels[16 * 4], 0);
  EXPECT_EQ(data->label(0), -1) << "the class is not known";
  EXPECT_EQ(data->annotations(), nullptr);
  EXPECT_FALSE(data->read(1, false, 1, 0, pixels.data()));
  EXPECT_EQ(data->skipped(), 1);

  config.data.name = "image_folder";  // reads 224 of 256 pixels
  config.data.root = at("absent");
  config.data.image_size = 28;
  const auto photographs = open_named_images(config, {at("a.png")}, classes_);
  EXPECT_EQ(photographs->shape().width, 28);
  EXPECT_TRUE(photographs->read(0, false, 1, 0, pixels.data()));
  EXPECT_EQ(pixels[13 * 4], 255);
  EXPECT_EQ(pixels[14 * 4], 0);
}

TEST(ClassesOfData, AreTheNamesOfItsSource) {
  Config config;
  config.data.samples = 64;
  config.data.batch = 8;
  config.data.name = "shapes";
  Classes classes = classes_of(*open_datasets(config, false).test);
  EXPECT_EQ(classes.names.size(), 10u);
  EXPECT_EQ(classes.names[5], "star");
  EXPECT_TRUE(classes.category_ids.empty());
  config.data.name = "shapes_detection";
  classes = classes_of(*open_datasets(config, false).test);
  EXPECT_EQ(classes.names[5], "star");
  EXPECT_EQ(classes.category_ids[5], 6);
  config.data.name = "synthetic";
  EXPECT_TRUE(classes_of(*open_datasets(config, false).test).names.empty());
}

}  // namespace
}  // namespace octet
