// The page of `octet check` about a folder of images with classes.
#include <gtest/gtest.h>

#include <filesystem>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "kernels/base/error.h"
#include "src/report/check/data_check.h"
#include "src/report/check/recipe_advice.h"
#include "tests/data/support.h"

namespace octet {
namespace {

class ClassCheckPage : public testing::Test {
 protected:
  ClassCheckPage() {
    for (const char* split : {"train", "val"})
      for (const char* name : {"cat", "dog"}) add(std::string(split) + "/" + name + "/1.png", ".png");
    config_.data.name = "image_folder";
    config_.data.root = folder_.path().string();
    config_.data.batch = 1;
    config_.model.classes = 2;
  }
  // A picture of its own.
  std::vector<uint8_t> picture_as(const char* ending) {
    cv::Mat image(20, 30, CV_8UC3, cv::Scalar(10 * ++pictures_, 100, 200));
    cv::line(image, {0, 0}, {29, 19}, cv::Scalar(255, 255, 255));
    std::vector<uint8_t> bytes;
    cv::imencode(ending, image, bytes);
    return bytes;
  }
  void add(const std::string& name, const char* ending) { write_file(folder_.path() / name, picture_as(ending)); }
  std::string page() {
    check_ = check_data(config_);
    return check_.page;
  }
  TemporaryFolder folder_;
  Config config_;
  DataCheck check_;
  int pictures_ = 0;
};

TEST_F(ClassCheckPage, CountsImagesClassesAndFormats) {
  add("train/cat/more/2.jpg", ".jpg");
  expect_says(page(), {"image_folder: 2 classes in", "images                                   3         2\n",
                       "  JPEG                                   1         0\n",
                       "  PNG                                    2         2\n",
                       "  cat                                    2         1\n",
                       "  dog                                    1         1\n", "the same image in both splits: 0"});
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
}

TEST_F(ClassCheckPage, ListsWhatIsWrongByKind) {
  write_file(folder_.path() / "train/cat/empty.jpg", {});
  auto cut = picture_as(".jpg");
  cut.resize(cut.size() - 10);
  write_file(folder_.path() / "train/cat/cut.jpg", cut);
  write_file(folder_.path() / "train/cat/gif.jpg", {'G', 'I', 'F', '8', '9', 'a'});
  write_file(folder_.path() / "val/dog/._1.png", {1, 2, 3});
  std::filesystem::create_directory(folder_.path() / "val/dog/folder.png");
  add("train/dog/webp.jpg", ".webp");
  expect_says(page(), {"train: no bytes, stops a training: 1\n", "cat/empty.jpg: the file is empty",
                       "train: of a format that octet does not read, stops a training: 1\n",
                       "train: damaged or cut off, stops a training: 1\n", "cut.jpg: bad JPEG data: Premature end",
                       "test: no readable file, stops a training: 1\n", "folder.png: not a regular file",
                       "train: named as another format, and read as what they are: 1\n", "dog/webp.jpg: WebP",
                       "test: 1 other files ignored: 1 hidden"});
  ASSERT_EQ(check_.errors.size(), 2u);
  expect_says(check_.errors[0], {"3 images of train cannot be read", "data.bad_images: skip"});
  config_.data.bad_images = "skip";
  expect_says(page(), {"train: no bytes, skipped: 1\n"});
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  ASSERT_EQ(check_.warnings.size(), 2u) << testing::PrintToString(check_.warnings);
  expect_says(check_.warnings[0], {"3 images of train cannot be read, and are skipped"});
  config_.data.max_pixels = 599;
  expect_says(page(), {"larger than data.max_pixels, skipped: 4", "30 x 20, more than data.max_pixels: 599"});
  EXPECT_EQ(check_.errors.size(), 2u);  // no image of a split can be read
}

// A chunk of a wrong length for its kind, with its checksum: libpng warns of it and leaves it out.
TEST_F(ClassCheckPage, ListsWarningsOfTheDecoder) {
  auto png = picture_as(".png");
  const std::vector<uint8_t> gamma = {0, 0, 0, 0, 'g', 'A', 'M', 'A', 0xB2, 0xE1, 0xB7, 0x1F};
  png.insert(png.begin() + 33, gamma.begin(), gamma.end());
  write_file(folder_.path() / "train/dog/warned.png", png);
  testing::internal::CaptureStderr();
  expect_says(page(), {"train: complete, but the decoder warns: 1\n", "dog/warned.png: gAMA"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(check_.errors.empty());
  ASSERT_EQ(check_.warnings.size(), 1u);
  expect_says(check_.warnings[0], {"the decoder warns of 1 images of train: ", "dog/warned.png: gAMA"});
}

TEST_F(ClassCheckPage, ListsHarmlessJpegFilesAndTwelveBitsInSixteen) {
  auto jpeg = picture_as(".jpg");
  jpeg.insert(jpeg.end() - 2, 30, 1);  // before the mark of the end, and more than a decoder reads ahead
  write_file(folder_.path() / "train/cat/stray.jpg", jpeg);
  std::vector<uint8_t> png;
  cv::imencode(".png", cv::Mat(20, 30, CV_16UC1, cv::Scalar(4000)), png);
  write_file(folder_.path() / "train/cat/twelve.png", png);
  expect_says(page(), {"train: complete, but the decoder warns: 2\n", "cat/stray.jpg: Corrupt JPEG data:",
                       "extraneous bytes before marker 0xd9", "cat/twelve.png: its 16-bit values are all below 4096"});
  EXPECT_TRUE(check_.errors.empty());
}

TEST_F(ClassCheckPage, FindsEqualImagesInBothSplits) {
  std::filesystem::copy_file(folder_.path() / "train/cat/1.png", folder_.path() / "val/cat/copy.png");
  std::filesystem::copy_file(folder_.path() / "train/cat/1.png", folder_.path() / "train/dog/copy.png");
  expect_says(page(),
              {"the same image in both splits: 1\n", "val/cat/copy.png", "the same image twice in a split: 1\n"});
  EXPECT_TRUE(check_.errors.empty());
}

TEST_F(ClassCheckPage, NamesClassesThatTheTestSetLacksAndFoldersThatAreNotRead) {
  add("train/eel/1.png", ".png");
  add("valid/cat/1.png", ".png");
  config_.model.classes = 3;
  expect_says(page(),
              {"  eel                                    1         0\n", "classes without images in test: 1: eel\n",
               "/train\ntest: ", "folders in data.root that are not read: 1: valid\n"});
  EXPECT_TRUE(check_.errors.empty()) << check_.errors[0];
  ASSERT_EQ(check_.warnings.size(), 1u);
  expect_says(check_.warnings[0], {"the test set lacks 1 of 3 classes, which are not judged: eel"});
  add("extra/1.png", ".png");
  std::filesystem::create_directory(folder_.path() / "val/thumbs");
  page();
  ASSERT_EQ(check_.warnings.size(), 3u);
  expect_says(check_.warnings[0], {"hold images and are not read: extra. "});
  expect_says(check_.warnings[1], {"val hold no images, and are not classes of training: thumbs"});
  add("val/fish/1.png", ".png");
  page();
  ASSERT_EQ(check_.errors.size(), 1u);
  expect_says(check_.errors[0], {"not in the training set: fish"});
}

TEST_F(ClassCheckPage, RecipesNeedTwoClasses) {
  for (const char* split : {"train", "val"}) std::filesystem::remove_all(folder_.path() / split / "dog");
  expect_says(message_of<UsageError>([&] { look_at_folder(folder_.path().string(), 2); }),
              {"/train: the only class is cat", "give two folders of classes or more"});
}

TEST_F(ClassCheckPage, SaysWhatItCannotCheck) {
  for (const auto& [name, why] : {std::pair("shapes", "octet makes itself"),
                                  {"cifar10", "files of its own\n  fix: train: it verifies"},
                                  {"packed", "check the folder of images before `octet pack`"}}) {
    config_.data.name = name;
    expect_says(message_of<UsageError>([&] { page(); }),
                {"reads image files, of data.name: coco, voc, yolo, image_folder; data.name is '", name, why});
  }
}

// `octet new` on folders with images that cannot be read.
TEST_F(ClassCheckPage, RecipesSkipImagesThatCannotBeRead) {
  write_file(folder_.path() / "train/cat/empty.jpg", {});
  auto cut = picture_as(".jpg");
  cut.resize(cut.size() - 10);
  write_file(folder_.path() / "val/dog/cut.jpg", cut);
  const FolderFacts facts = look_at_folder(folder_.path().string(), 2);
  EXPECT_EQ(facts.splits, "train/ and val/");
  EXPECT_EQ(facts.examined, 6);
  ASSERT_EQ(facts.bad.size(), 2u);
  expect_says(facts.bad[0], {"train/cat/empty.jpg: ", "empty"});
  expect_says(facts.bad[1], {"val/dog/cut.jpg: bad JPEG data"});
  const std::string recipe = recipe_text(choose_recipe(facts, "", 1 << 30, 2), "");
  expect_says(recipe, {"  bad_images: skip  # 2 of 6 images cannot be read"});
  EXPECT_EQ(parse_config(recipe, "recipe", {}).data.bad_images, "skip");
  for (const char* split : {"train", "val"})
    for (const char* name : {"cat", "dog"}) write_file(folder_.path() / split / name / "1.png", {1});
  expect_says(message_of<UsageError>([&] { look_at_folder(folder_.path().string(), 2); }),
              {"none of the images that were tried can be read: ", "train/cat/1.png: "});
}

TEST_F(ClassCheckPage, RecipesOfGoodImagesDoNotSkip) {
  const FolderFacts facts = look_at_folder(folder_.path().string(), 1);
  EXPECT_TRUE(facts.bad.empty());
  EXPECT_FALSE(facts.divided);
  const std::string recipe = recipe_text(choose_recipe(facts, "", 1 << 30, 1), "");
  EXPECT_EQ(recipe.find("bad_images"), std::string::npos);
  expect_says(recipe, {"# 4 images in train/ and val/"});
}

TEST_F(ClassCheckPage, SaysWhatATrainingWouldRefuse) {
  config_.model.classes = 10;
  config_.data.batch = 3;
  page();
  ASSERT_EQ(check_.errors.size(), 2u);
  expect_says(check_.errors[0], {"set model.classes to 2"});
  expect_says(check_.errors[1], {"set data.batch to at most 2"});
  std::filesystem::remove_all(folder_.path() / "val");
  page();
  ASSERT_EQ(check_.errors.size(), 1u);
  expect_says(check_.errors[0], {"data.holdout: 0.1"});
  std::filesystem::create_directories(folder_.path() / "train/eel");
  config_.data.holdout = 0.5;
  page();
  expect_says(check_.errors.at(0), {"train/eel", "holds no .jpg"});
}

}  // namespace
}  // namespace octet
