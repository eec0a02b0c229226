// Packing: what comes out is what the folder gives, and a damaged pack is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <opencv2/imgcodecs.hpp>

#include "kernels/base/error.h"
#include "src/data/loader.h"
#include "src/data/sources/pack.h"
#include "tests/data/support.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class Packed : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("octet-pack-" + std::to_string(getpid()));
    fs::remove_all(root_);
    for (const char* split : {"train", "val"}) {
      for (const char* name : {"bee", "cat"}) {
        fs::create_directories(root_ / "images" / split / name);
        for (int i = 0; i < 3; ++i) {  // smaller than a crop needs: packed as they are
          cv::Mat image(40 + i, 50, CV_8UC3);
          for (int y = 0; y < image.rows; ++y)
            for (int x = 0; x < image.cols; ++x)
              image.at<cv::Vec3b>(y, x) = cv::Vec3b(uchar(4 * x), uchar(5 * y), uchar(30 * i));
          cv::imwrite((root_ / "images" / split / name / (std::to_string(i) + ".png")).string(), image);
        }
      }
    }
    config_.data.name = "image_folder";
    config_.data.root = (root_ / "images").string();
    config_.data.image_size = 48;
    config_.data.batch = 2;
    config_.model.classes = 2;
  }
  void TearDown() override { fs::remove_all(root_); }
  Config packed() const {
    Config config = config_;
    config.data.name = "packed";
    config.data.root = (root_ / "packed").string();
    return config;
  }

  fs::path root_;
  Config config_;
};

TEST_F(Packed, GivesTheSamePixels) {
  const PackReport report = pack_image_folder(config_, packed().data.root);
  EXPECT_EQ(report.images, 12);
  config_.data.mean = {0.5, 0.4, 0.3};  // of reading, not of packing
  const Datasets folder = open_datasets(config_), pack = open_datasets(packed());
  ASSERT_EQ(pack.train->size(), folder.train->size());
  const size_t pixels = size_t(48 * 48 * 4);
  for (int64_t i = 0; i < folder.train->size(); ++i) {
    EXPECT_EQ(pack.train->label(i), folder.train->label(i));
    for (bool training : {false, true}) {
      std::vector<uint8_t> a(pixels), b(pixels);
      ASSERT_TRUE(folder.train->read(i, training, 7, 3, a.data()));
      ASSERT_TRUE(pack.train->read(i, training, 7, 3, b.data()));
      EXPECT_EQ(a, b) << i;
    }
  }
}

TEST_F(Packed, FingerprintFollowsPicturesNotPlaces) {
  pack_image_folder(config_, packed().data.root);
  const uint64_t folder = open_datasets(config_).fingerprint(), pack = open_datasets(packed()).fingerprint();
  fs::rename(root_ / "images", root_ / "elsewhere");
  config_.data.root = (root_ / "elsewhere").string();
  EXPECT_EQ(open_datasets(config_).fingerprint(), folder);
  cv::imwrite((root_ / "elsewhere/train/cat/0.png").string(), cv::Mat(40, 50, CV_8UC3, cv::Scalar(1, 2, 3)));
  pack_image_folder(config_, packed().data.root);
  EXPECT_NE(open_datasets(packed()).fingerprint(), pack);
  fs::rename(root_ / "elsewhere/train/cat/0.png", root_ / "elsewhere/train/cat/zero.png");
  EXPECT_NE(open_datasets(config_).fingerprint(), folder);
}

TEST_F(Packed, BadImageStopsOrIsSkipped) {
  std::ofstream(root_ / "images/train/cat/broken.png") << "no image";
  EXPECT_THROW(pack_image_folder(config_, packed().data.root), Error);
  EXPECT_TRUE(fs::is_empty(root_ / "packed"));
  fs::rename(root_ / "images/train/cat/broken.png", root_ / "images/val/cat/broken.png");
  EXPECT_THROW(pack_image_folder(config_, packed().data.root), Error);
  EXPECT_TRUE(fs::is_empty(root_ / "packed"));  // both packs or none
  fs::rename(root_ / "images/val/cat/broken.png", root_ / "images/train/cat/broken.png");
  config_.data.bad_images = "skip";
  EXPECT_EQ(pack_image_folder(config_, packed().data.root).skipped, 1);
  EXPECT_EQ(open_datasets(packed()).train->size(), 6);
}

TEST_F(Packed, IsRefusedForLargerImages) {
  pack_image_folder(config_, packed().data.root);
  Config config = packed();
  config.data.image_size = 32;
  EXPECT_EQ(open_datasets(config).train->shape().height, 32);
  config.data.image_size = 49;
  try {
    open_datasets(config);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("pack again with data.image_size: 49"), std::string::npos);
  }
}

// Every cut, and every changed byte of the head and the index, gives an error or a data set whose images lie inside the
// file.
TEST_F(Packed, DamageIsRefused) {
  pack_image_folder(config_, packed().data.root);
  const fs::path file = root_ / "packed/train.pack";
  std::ifstream stream(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  const auto opens = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      const Datasets sets = open_datasets(packed());
      std::vector<uint8_t> pixels = room_for({48, 48});
      for (int64_t i = 0; i < sets.train->size(); ++i) sets.train->read(i, true, 1, 1, pixels.data());
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(opens(whole));
  for (size_t length = 0; length < whole.size(); length += 997) EXPECT_FALSE(opens(whole.substr(0, length))) << length;
  EXPECT_FALSE(opens(whole + "x"));
  for (size_t at = 0; at < 16; ++at) {
    std::string changed = whole;
    changed[at] = char(changed[at] ^ 0x55);
    EXPECT_FALSE(opens(changed)) << at;
  }
  const size_t images = whole.size() - 6 * sizeof(PackedImage);
  for (size_t at = images - 56; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = char(changed[at] ^ 0x80);
    const bool read = opens(changed);  // a class may have another name
    EXPECT_FALSE(read && at >= images) << at;
  }
}

TEST_F(Packed, ChangedPixelsAreNoticed) {
  pack_image_folder(config_, packed().data.root);
  const fs::path file = root_ / "packed/train.pack";
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(24 + 5);  // of the first image
  stream.put('\xAA');
  stream.close();
  Config config = packed();
  std::vector<uint8_t> pixels = room_for({48, 48});
  EXPECT_THROW(open_datasets(config).train->read(0, true, 1, 1, pixels.data()), Error);
  config.data.bad_images = "skip";
  const Datasets sets = open_datasets(config);
  EXPECT_FALSE(sets.train->read(0, true, 1, 1, pixels.data()));
  EXPECT_TRUE(sets.train->read(1, true, 1, 1, pixels.data()));
  EXPECT_EQ(sets.train->skipped(), 1);
}

}  // namespace
}  // namespace octet
