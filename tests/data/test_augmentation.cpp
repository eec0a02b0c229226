// augment.* and data.balanced: functions of seed, epoch and index, off by default.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "src/data/augment/augmentation.h"
#include "src/data/augment/mixing.h"
#include "src/data/augment/randaugment.h"
#include "src/data/batch_order.h"
#include "src/normalization.h"
#include "tests/data/files.h"

namespace octet {
namespace {

// tests/golden/make_augmentations.py
TEST(Operations, GiveTorchvisionsPixels) {
  int compared = 0;
  for (const auto& picture :
       nlohmann::json::parse(std::ifstream(OCTET_SOURCE_DIR "/tests/golden/augmentations.json"))) {
    for (const auto& result : picture["results"]) {
      std::vector<uint8_t> pixels = bytes_in_hex(picture["pixels"]);
      const Picture view{picture["height"], picture["width"], pixels};
      const std::string name = result["operation"];
      const int64_t magnitude = result["magnitude"];
      if (name == "Hue")
        turn_hue(view, static_cast<int>(magnitude));
      else
        apply_operation(name, magnitude, result["negative"], view);
      const std::vector<uint8_t> expected = bytes_in_hex(result["pixels"]);
      int differ = 0;
      for (size_t i = 0; i < pixels.size(); ++i) differ += pixels[i] != expected[i];
      EXPECT_EQ(differ, 0) << name << " " << magnitude << (result["negative"] ? ", negative" : "");
      ++compared;
    }
  }
  EXPECT_GT(compared, 70);
}

TEST(Operations, AreThoseOfRandAugment) { EXPECT_EQ(operation_names().size(), 14u); }

// Pictures of 32 pixels in memory, and files: both readers of training images.
class Augmented : public testing::Test {
 protected:
  Augmented() {
    drawn_.data.samples = 64;
    drawn_.data.batch = 8;
    for (const char* split : {"train", "val"})
      for (const char* name : {"cat", "dog"})
        for (const char* file : {"1.png", "2.png", "3.png"}) {
          cv::Mat noise(40, 50, CV_8UC3);
          cv::randu(noise, 20, 200);
          write_file(folder_.path() / split / name / file, encoded(noise, ".png"));
        }
    files_.data.name = "image_folder";
    files_.data.root = folder_.path().string();
    files_.data.image_size = 32;
    files_.data.batch = 2;
    files_.model.classes = 2;
  }
  // The number of 100 training images that the keys change. Evaluation and other keys' draws must not change.
  static int changed_by(Config config, const std::function<void(Config::Augment&)>& set) {
    const Datasets plain = open_datasets(config);
    set(config.augment);
    const Datasets sets = open_datasets(config), again = open_datasets(config);
    int changed = 0;
    for (int64_t i = 0; i < 100; ++i) {
      const int64_t index = i % sets.train->size();
      const auto pixels = pixels_of(*sets.train, index, true, 5, i);
      EXPECT_EQ(pixels, pixels_of(*again.train, index, true, 5, i));
      changed += pixels != pixels_of(*plain.train, index, true, 5, i);
    }
    EXPECT_EQ(pixels_of(*sets.test, 1), pixels_of(*plain.test, 1));
    EXPECT_EQ(pixels_of(*sets.train, 1), pixels_of(*plain.train, 1));
    return changed;
  }
  TemporaryFolder folder_;
  Config drawn_, files_;
};

TEST_F(Augmented, ImagesChangeWhereAKeyIsSet) {
  for (Config config : {drawn_, files_})
    for (const bool crops : {true, false}) {
      config.data.augment = crops;
      EXPECT_EQ(changed_by(config, [](auto&) {}), 0);
      EXPECT_GT(changed_by(config, [](auto& keys) { keys.randaugment = 2; }), 80);
      EXPECT_GT(changed_by(config, [](auto& keys) { keys.color_jitter = {0.4, 0.4, 0.4, 0.1}; }), 95);
      const int erased = changed_by(config, [](auto& keys) { keys.erasing = 0.3; });
      EXPECT_NEAR(erased, 30, 20);  // four standard deviations
    }
}

TEST_F(Augmented, ErasedRectanglesAreZero) {
  files_.data.augment = false;
  const auto plain = pixels_of(*open_datasets(files_).train, 0, true);
  files_.augment.erasing = 1;
  const Datasets sets = open_datasets(files_);
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const auto pixels = pixels_of(*sets.train, 0, true, 1, epoch);
    int left = 32, right = -1, top = 32, bottom = -1, erased = 0;
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x) {
        const size_t at = size_t(y * 32 + x) * 3;
        if (std::equal(&pixels[at], &pixels[at] + 3, &plain[at])) continue;
        for (size_t c = 0; c < 3; ++c) EXPECT_EQ(pixels[at + c], 0);
        left = std::min(left, x), right = std::max(right, x), top = std::min(top, y), bottom = std::max(bottom, y);
        ++erased;
      }
    EXPECT_EQ(erased, (right - left + 1) * (bottom - top + 1)) << "a rectangle";
    EXPECT_GE(erased, 32 * 32 * 0.015);
    EXPECT_LE(erased, 32 * 32 * 0.36);
  }
}

TEST_F(Augmented, KeysWithoutMeaningAreRefused) {
  const auto refused = [](const Config& config) { return message_of<UsageError>([&] { open_datasets(config); }); };
  Config config = drawn_;
  config.augment.color_jitter = {0.1, 0.1, 0.1, 0.6};
  expect_says(refused(config), {"a hue is at most 0.5"});
  config.augment.color_jitter = {0, 0, 0, 0, 0};
  expect_says(refused(config), {"has 5 numbers"});
  config = drawn_;
  config.data.name = "synthetic";
  config.augment.erasing = 0.5;
  expect_says(refused(config), {"augment.erasing is set, but 'synthetic' has no pictures"});
  config = drawn_;
  config.augment.mosaic = 0.5;
  expect_says(refused(config), {"augment.mosaic is set, but 'shapes' has no objects", "leave augment.mosaic out"});
  config = drawn_;
  config.data.name = "shapes_detection";
  config.augment.mixup = 0.2;
  expect_says(refused(config), {"augment.mixup is set, but 'shapes_detection' has objects"});
  config.augment.mixup = 0;
  config.augment.cutmix = 1;
  expect_says(refused(config), {"augment.cutmix is set, but 'shapes_detection' has objects"});
  config.augment.cutmix = 0;
  config.data.balanced = true;
  expect_says(refused(config), {"data.balanced is set"});
}

// Beta(alpha, alpha) has mean 1/2 and variance 1 / (4 (2 alpha + 1)).
TEST(Mixup, SharesHaveTheDistribution) {
  for (const double alpha : {0.001, 0.2, 1.0, 2.0}) {
    double sum = 0, squares = 0;
    constexpr int draws = 20000;
    for (int64_t i = 0; i < draws; ++i) {
      const double share = mixup_share(3, 1, i, alpha);
      ASSERT_TRUE(share >= 0 && share <= 1);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / draws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / draws, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
}

TEST_F(Augmented, BatchesAreMixedWhateverReadsThem) {
  const Datasets sets = open_datasets(drawn_);
  const auto read = [&](int ranks, int64_t workers, double alpha) {
    std::vector<float> images, shares;
    std::vector<int32_t> labels, others;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto loader = make_loader(*sets.train, true, 8, rank, ranks, workers, 9,
                                      {.mixup = alpha, .pixels = of_photographs.pixels()});
      loader->start(3);
      const Batch& batch = loader->next();
      std::vector<float> of_batch(size_t(batch.count) * 3072);
      if (alpha > 0)
        memcpy(of_batch.data(), batch.images, of_batch.size() * sizeof(float));
      else
        normalize_pixels(of_photographs.pixels(), static_cast<const uint8_t*>(batch.images), batch.count * 1024,
                         of_batch.data());
      images.insert(images.end(), of_batch.begin(), of_batch.end());
      labels.insert(labels.end(), batch.targets.labels, batch.targets.labels + batch.count);
      if (alpha == 0) {
        EXPECT_EQ(batch.targets.shares, nullptr);
        continue;
      }
      others.insert(others.end(), batch.targets.other_labels, batch.targets.other_labels + batch.count);
      shares.insert(shares.end(), batch.targets.shares, batch.targets.shares + batch.count);
    }
    return std::tuple{images, labels, others, shares};
  };
  const auto [plain, labels, none, no_shares] = read(1, 1, 0);
  const auto [mixed, same_labels, others, shares] = read(1, 1, 1);
  EXPECT_EQ(same_labels, labels);
  for (size_t i = 0; i < 8; ++i) {
    const size_t next = (i + 1) % 8;
    EXPECT_EQ(others[i], labels[next]);
    for (size_t k = 0; k < 3072; k += 97)
      EXPECT_EQ(mixed[i * 3072 + k], shares[i] * plain[i * 3072 + k] + (1 - shares[i]) * plain[next * 3072 + k]);
  }
  EXPECT_EQ(read(1, 3, 1), read(1, 1, 1));
  EXPECT_EQ(read(4, 2, 1), read(1, 1, 1));
}

TEST_F(Augmented, BalancedEpochsHaveEveryClassEquallyOften) {
  for (int i = 0; i < 10; ++i)
    write_file(folder_.path() / "train" / "cat" / ("more" + std::to_string(i) + ".png"),
               encoded(picture(40, 40), ".png"));
  const Datasets sets = open_datasets(files_);  // 13 cats and 3 dogs
  std::map<uint32_t, int> times;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const std::vector<uint32_t> order = balanced_order(*sets.train, 7, epoch);
    ASSERT_EQ(order.size(), 16u);
    EXPECT_EQ(std::ranges::count(order, 0, [&](uint32_t i) { return sets.train->label(i); }), 8);
    std::map<uint32_t, int> of_epoch;
    for (const uint32_t sample : order) ++times[sample], ++of_epoch[sample];
    for (const auto& [sample, count] : of_epoch)
      EXPECT_TRUE(sets.train->label(sample) == 0 ? count == 1 : count == 2 || count == 3);
    EXPECT_EQ(order, balanced_order(*sets.train, 7, epoch));
    EXPECT_NE(order, balanced_order(*sets.train, 7, epoch + 1));
  }
  EXPECT_EQ(times.size(), 16u);
  EXPECT_EQ(training_order(*sets.train, 2, 7, 1).samples, epoch_order(16, 7, 1));
  EXPECT_EQ(training_order(*sets.train, 2, 7, 1, true).samples, balanced_order(*sets.train, 7, 1));
}

}  // namespace
}  // namespace octet
