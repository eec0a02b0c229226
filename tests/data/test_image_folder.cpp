#include <cmath>
#include <random>
#include <set>

#include "src/data/augment/crops.h"
#include "src/data/images/decode.h"
#include "tests/data/files.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public testing::Test {
 protected:
  ImageFolder() {
    config_.data.name = "image_folder";
    config_.data.root = folder_.path().string();
    config_.data.batch = 1;
    config_.data.image_size = 32;
    config_.data.bad_images = "skip";
    config_.model.classes = 2;
    for (const char* split : {"train", "val"})
      for (const char* name : {"cat", "dog"})
        write_file(folder_.path() / split / name / "a.jpg", encoded(picture(40, 60), ".jpg"));
  }
  void add(const std::string& name, const std::vector<uint8_t>& bytes) { write_file(cats() / name, bytes); }
  fs::path cats() const { return folder_.path() / "train" / "cat"; }
  // The error with data.bad_images: stop of the one file "b..." of the training set, which must also be skipped on
  // demand.
  std::string refusal() {
    std::vector<uint8_t> pixels = room_for({32, 32});
    config_.data.bad_images = "skip";
    const Datasets skipping = open_datasets(config_);
    EXPECT_EQ(skipping.train->size(), 3);
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(skipping.train->read(1, true, 1, i, pixels.data()));
    EXPECT_TRUE(skipping.train->read(0, true, 1, 0, pixels.data()));
    EXPECT_EQ(skipping.train->skipped(), 1);
    config_.data.bad_images = "stop";
    const Datasets stopping = open_datasets(config_);
    return message_of<Error>([&] { stopping.train->read(1, true, 1, 0, pixels.data()); });
  }
  // The mean colour of the file "b..." as evaluation sees it, 0 .. 255.
  std::vector<double> color() {
    const auto pixels = pixels_of(*open_datasets(config_).train, 1);
    std::vector<double> sum(3);
    for (size_t i = 0; i < pixels.size(); ++i) sum[i % 3] += pixels[i] / 1024;
    return sum;
  }
  TemporaryFolder folder_;
  Config config_;
};

TEST_F(ImageFolder, IndexesClassesAndFilesInOrder) {
  add("c.PNG", encoded(picture(50, 50), ".png"));
  add("b.JPEG", encoded(picture(50, 50), ".jpg"));
  add("notes.txt", {1, 2, 3});
  const Datasets sets = open_datasets(config_);
  EXPECT_EQ(sets.train->size(), 4);
  EXPECT_EQ(sets.test->size(), 2);
  EXPECT_EQ(sets.train->classes(), 2);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(sets.train->label(i), i == 3);
  expect_says(sets.train->describe(), {"4 images of 2 classes", "1 other files ignored"});
}

TEST_F(ImageFolder, ReadsRedAndBlueWhereTheyAre) {
  for (const char* name : {"b.jpg", "b.png"}) {
    add(name, encoded(picture(320, 480), fs::path(name).extension().c_str()));
    const auto pixels = pixels_of(*open_datasets(config_).train, 1);
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x) {
        if (x == 15 || x == 16) continue;
        const float* pixel = &pixels[(y * 32 + x) * 3];
        EXPECT_NEAR(pixel[0], x < 16 ? 255 : 0, 8);
        EXPECT_NEAR(pixel[1], 0, 8);
        EXPECT_NEAR(pixel[2], x >= 16 ? 255 : 0, 8);
      }
    fs::remove(cats() / name);
  }
}

// A picture decoded at an eighth of its size: the crop's corner is the nearest column there.
TEST(Crops, OfAReducedPictureBeginAtTheNearestPixel) {
  cv::Mat reduced(10, 10, CV_8UC3);
  for (int y = 0; y < 10; ++y)
    for (int x = 0; x < 10; ++x) reduced.at<cv::Vec3b>(y, x) = cv::Vec3b(uint8_t(x), uint8_t(y), 0);
  for (const auto& [corner, column] : {std::pair{11, 1}, {13, 2}, {15, 2}, {16, 2}, {20, 3}}) {
    const cv::Mat crop = mat_of(resized_crop(raster_of(reduced), 80, 80, {corner, corner, 32, 32}, 4));
    EXPECT_EQ(crop.at<cv::Vec3b>(0, 0), cv::Vec3b(uint8_t(column), uint8_t(column), 0)) << corner;
  }
}

TEST_F(ImageFolder, AugmentsAsAFunctionOfSeedEpochAndIndex) {
  const Datasets sets = open_datasets(config_);
  EXPECT_EQ(pixels_of(*sets.train, 0, true, 4, 2), pixels_of(*sets.train, 0, true, 4, 2));
  EXPECT_NE(pixels_of(*sets.train, 0, true, 4, 2), pixels_of(*sets.train, 0, true, 4, 3));
  // Flips come: in some views red is on the left, in some on the right.
  int red_left = 0, red_right = 0;
  for (int64_t epoch = 0; epoch < 100; ++epoch) {
    const auto pixels = pixels_of(*sets.train, 0, true, 4, epoch);
    const float left = pixels[16 * 96], right = pixels[16 * 96 + 93];
    red_left += left > right + 60;
    red_right += right > left + 60;
  }
  EXPECT_GT(red_left, 10);
  EXPECT_GT(red_right, 10);
}

TEST_F(ImageFolder, ConvertsGray) {
  add("b.jpg", encoded(cv::Mat(40, 40, CV_8UC1, cv::Scalar(77)), ".jpg"));
  for (double channel : color()) EXPECT_NEAR(channel, 77, 1.5);
}
TEST_F(ImageFolder, ConvertsGrayPng) {
  add("b.png", encoded(cv::Mat(40, 40, CV_8UC1, cv::Scalar(77)), ".png"));
  for (double channel : color()) EXPECT_NEAR(channel, 77, 0.01);
}
TEST_F(ImageFolder, ConvertsSixteenBits) {
  add("b.png", encoded(cv::Mat(40, 40, CV_16UC3, cv::Scalar(50 * 257, 100 * 257, 200 * 257)), ".png"));
  const auto found = color();
  EXPECT_NEAR(found[0], 200, 1);
  EXPECT_NEAR(found[1], 100, 1);
  EXPECT_NEAR(found[2], 50, 1);
}
TEST_F(ImageFolder, DropsAlpha) {
  add("b.png", encoded(cv::Mat(40, 40, CV_8UC4, cv::Scalar(50, 100, 200, 128)), ".png"));
  EXPECT_NEAR(color()[0], 200, 0.01);
}
TEST_F(ImageFolder, ConvertsCmyk) {
  add("b.jpg", encoded_cmyk(40, 40, 200, 100, 50));
  const auto found = color();
  EXPECT_NEAR(found[0], 200, 3);
  EXPECT_NEAR(found[1], 100, 3);
  EXPECT_NEAR(found[2], 50, 3);
}
TEST_F(ImageFolder, BelievesTheBytesNotTheName) {
  add("b.jpg", encoded(cv::Mat(40, 40, CV_8UC3, cv::Scalar(50, 100, 200)), ".png"));
  EXPECT_NEAR(color()[0], 200, 0.01);
}
TEST_F(ImageFolder, TakesAnyShapeOfImage) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 3000}, {3000, 1}, {2, 2}, {33, 31}, {500, 7}}) {
    for (const char* name : {"b.jpg", "b.png"}) {
      add(name, encoded(cv::Mat(height, width, CV_8UC3, cv::Scalar(50, 100, 200)), fs::path(name).extension().c_str()));
      const Datasets sets = open_datasets(config_);
      for (int64_t epoch = 0; epoch < 20; ++epoch)
        for (bool training : {true, false}) {
          const auto pixels = pixels_of(*sets.train, 1, training, 1, epoch);
          for (size_t i = 0; i < pixels.size(); i += 3) ASSERT_NEAR(pixels[i], 200, 4) << height << " x " << width;
        }
      fs::remove(cats() / name);
    }
  }
}

TEST_F(ImageFolder, RefusesAnEmptyFile) {
  add("b.jpg", {});
  expect_says(refusal(), {"cat/b.jpg", "empty", "data.bad_images: skip"});
}
TEST_F(ImageFolder, RefusesTruncatedJpegs) {
  const auto jpeg = encoded(picture(200, 300), ".jpg");
  for (size_t size : {size_t{1}, size_t{3}, size_t{20}, size_t{200}, jpeg.size() / 2, jpeg.size() - 10}) {
    add("b.jpg", start_of(jpeg, size));
    expect_says(refusal(), {"cat/b.jpg"});
  }
}
TEST_F(ImageFolder, RefusesTruncatedPngs) {
  cv::Mat noise(100, 100, CV_8UC3);
  cv::randu(noise, 0, 255);
  const auto png = encoded(noise, ".png");
  for (size_t size : {size_t{7}, size_t{16}, size_t{24}, size_t{33}, png.size() / 2, png.size() - 100}) {
    add("b.png", start_of(png, size));
    expect_says(refusal(), {"cat/b.png"});
  }
}
TEST_F(ImageFolder, RefusesDamagedData) {
  auto png = encoded(picture(100, 100), ".png");
  png[png.size() / 2] ^= 0xFF;
  add("b.png", png);
  expect_says(refusal(), {"cat/b.png", "bad PNG"});
}
TEST_F(ImageFolder, RefusesForgedSizes) {
  add("b.jpg", forged(encoded(picture(40, 40), ".jpg")));
  expect_says(refusal(), {"cat/b.jpg", "60000 x 60000", "data.max_pixels"});
  fs::remove(cats() / "b.jpg");
  auto png = encoded(picture(40, 40), ".png");
  png[16] = png[20] = 0x7F;
  add("b.png", png);
  expect_says(refusal(), {"cat/b.png", "data.max_pixels"});
  fs::remove(cats() / "b.png");
  config_.data.max_pixels = 40 * 60;
  add("b.png", encoded(picture(40, 61), ".png"));
  expect_says(refusal(), {"61 x 40", "data.max_pixels: 2400"});
}
TEST_F(ImageFolder, RefusesOtherFormats) {
  add("b.jpg", {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0});
  expect_says(refusal(), {"cat/b.jpg", "neither JPEG nor PNG", "47 49 46 38"});
}
TEST_F(ImageFolder, RefusesFoldersAndDanglingLinks) {
  fs::create_directory(cats() / "b.JPEG");
  expect_says(refusal(), {"cat/b.JPEG", "not a regular file"});
  fs::remove(cats() / "b.JPEG");
  fs::create_symlink("nowhere", cats() / "b.jpg");
  expect_says(refusal(), {"cat/b.jpg"});
}
TEST_F(ImageFolder, RefusesUnreadableFiles) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  add("b.jpg", encoded(picture(40, 40), ".jpg"));
  fs::permissions(cats() / "b.jpg", fs::perms::none);
  expect_says(refusal(), {"cat/b.jpg", "cannot be read"});
}

TEST_F(ImageFolder, RefusesFoldersThatDoNotFit) {
  const auto refused = [&] { return message_of<Error>([&] { open_datasets(config_); }); };
  fs::create_directory(folder_.path() / "train" / "eel");
  expect_says(refused(), {"train/eel", "no .jpg"});
  fs::remove_all(folder_.path() / "train" / "eel");
  write_file(folder_.path() / "val" / "eel" / "a.jpg", {1});
  expect_says(refused(), {"val has classes that are not in the training set: eel"});
  fs::remove_all(folder_.path() / "val" / "eel");
  fs::rename(folder_.path() / "val", folder_.path() / "test");
  EXPECT_EQ(open_datasets(config_).test->size(), 2);
  fs::remove_all(folder_.path() / "test");
  expect_says(refused(), {"test", "sort the images into a folder for each class"});
  fs::remove_all(folder_.path());
  expect_says(refused(), {"data.root is `", "no such file or folder", "train/<class>"});
}

// A class may be too rare for an image of evaluation: its folder is empty, or there is none.
TEST_F(ImageFolder, TheTestSetMayLackClasses) {
  for (const char* name : {"bee", "eel"})
    write_file(folder_.path() / "train" / name / "a.jpg", encoded(picture(40, 60), ".jpg"));
  fs::create_directory(folder_.path() / "val" / "eel");
  fs::remove_all(folder_.path() / "val" / "cat");
  config_.model.classes = 4;
  for (const bool training : {true, false}) {
    const Datasets sets = open_datasets(config_, training);
    EXPECT_EQ(sets.test->class_names(), (std::vector<std::string>{"bee", "cat", "dog", "eel"}));
    EXPECT_EQ(sets.test->absent_classes(), (std::vector<std::string>{"bee", "cat", "eel"}));
    ASSERT_EQ(sets.test->size(), 1);
    EXPECT_EQ(sets.test->label(0), 2);
  }
  // Images for evaluation alone, by the classes of a network.
  const Classes known{{"ant", "bee", "cat", "dog", "eel"}, {}};
  fs::remove_all(folder_.path() / "train");
  expect_says(message_of<UsageError>([&] { open_datasets(config_, false); }), {"the data has 2 classes"});
  config_.model.classes = 5;
  EXPECT_EQ(open_datasets(config_, false, known).test->label(0), 3);
}

// Any classes of the training set, in any order of the folders: labels are those of the names.
TEST_F(ImageFolder, RandomSubsetsOfClassesAreNumberedByName) {
  std::mt19937 random(11);
  const auto image = encoded(picture(8, 8), ".png");
  for (int round = 0; round < 20; ++round) {
    TemporaryFolder folder;
    std::set<std::string> names;
    while (names.size() < 2 + random() % 8) names.insert(std::string(1 + random() % 3, char('A' + random() % 50)));
    if (names.contains(".")) continue;
    std::vector<std::string> judged;
    const std::vector<std::string> all(names.begin(), names.end());
    for (const std::string& name : all) {
      write_file(folder.path() / "train" / name / "a.png", image);
      if (random() % 2 == 0) judged.push_back(name);
    }
    if (judged.empty()) judged.push_back(all.back());
    for (const std::string& name : judged) write_file(folder.path() / "val" / name / "b.png", image);
    config_.data.root = folder.path().string();
    config_.model.classes = static_cast<int64_t>(all.size());
    for (const bool training : {true, false}) {
      const Datasets sets = open_datasets(config_, training);
      EXPECT_EQ(sets.test->class_names(), all);
      ASSERT_EQ(sets.test->size(), static_cast<int64_t>(judged.size()));
      for (int64_t i = 0; i < sets.test->size(); ++i)
        EXPECT_EQ(all[size_t(sets.test->label(i))], judged[size_t(i)]) << "round " << round;
      EXPECT_EQ(sets.test->absent_classes().size(), all.size() - judged.size());
    }
    write_file(folder.path() / "val" / "zz" / "b.png", image);
    expect_says(message_of<UsageError>([&] { open_datasets(config_); }), {"not in the training set: zz"});
  }
}

TEST_F(ImageFolder, LoadsAroundBadImages) {
  add("b.jpg", {});
  config_.data.batch = 3;
  const Datasets sets = open_datasets(config_);
  const auto loader = make_loader(*sets.train, true, 3, 0, 1, 2, 1);
  loader->start(0);
  for (int step = 0; step < 4; ++step) {
    const Batch& batch = loader->next();
    EXPECT_EQ(std::count(batch.targets.labels, batch.targets.labels + 3, -1), 1);
    EXPECT_EQ(std::count(batch.targets.labels, batch.targets.labels + 3, 0), 1);
    EXPECT_EQ(std::count(batch.targets.labels, batch.targets.labels + 3, 1), 1);
  }
  EXPECT_EQ(sets.train->skipped(), 1);
}

}  // namespace
}  // namespace octet
