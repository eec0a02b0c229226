#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/data/images/normalization.h"
#include "tests/data/support.h"

namespace octet {
namespace {

TEST(Shapes, AreTheSamePicturesAlways) {
  Config config;
  config.data.samples = 200;
  config.data.workers = 1;
  const Datasets one = open_datasets(config);
  config.data.workers = 3;
  config.seed = 99;
  config.data.samples = 300;
  const Datasets three = open_datasets(config);
  EXPECT_EQ(one.train->size(), 200);
  EXPECT_EQ(one.test->size(), 50);
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(pixels_of(*one.train, i), pixels_of(*three.train, i, false, 99, 7));
  EXPECT_NE(pixels_of(*one.train, 0), pixels_of(*one.test, 0));
  // A checksum of the pixels as bytes: drawing must not depend on the machine or the compiler.
  int64_t checksum = 0;
  for (int64_t i = 0; i < 200; ++i)
    for (float x : pixels_of(*one.train, i)) checksum = checksum * 31 % 1000000007 + std::lround(x);
  EXPECT_EQ(checksum, 775698245);
}

TEST(Shapes, AugmentationIsAFunctionOfSeedEpochAndIndex) {
  Config config;
  config.data.samples = 128;
  const Datasets sets = open_datasets(config);
  EXPECT_EQ(pixels_of(*sets.train, 3, true, 1, 2), pixels_of(*sets.train, 3, true, 1, 2));
  int same = 0;
  for (int64_t epoch = 1; epoch <= 20; ++epoch)
    same += pixels_of(*sets.train, 3, true, 1, 0) == pixels_of(*sets.train, 3, true, 1, epoch);
  EXPECT_LT(same, 5);  // 50 cases: each equals the first with probability 1/50
  config.data.augment = false;
  const Datasets plain = open_datasets(config);
  EXPECT_EQ(pixels_of(*plain.train, 3, true, 1, 2), pixels_of(*plain.train, 3));
}

// Shapes must need a convolutional network: softmax regression on the pixels stays far from solving them.
TEST(Shapes, AreNotLinearlySeparable) {
  Config config;
  const Datasets sets = open_datasets(config);
  constexpr int64_t classes = 10, inputs = 3072;
  std::vector<float> weights(classes * inputs);
  const auto scores_of = [&](const std::vector<float>& x) {
    std::vector<float> scores(classes);
    for (int64_t k = 0; k < classes; ++k) {
      float lanes[16] = {};
      for (int64_t i = 0; i < inputs; i += 16)
        for (int64_t l = 0; l < 16; ++l) lanes[l] += weights[k * inputs + i + l] * x[i + l];
      for (float lane : lanes) scores[k] += lane;
    }
    return scores;
  };
  for (int64_t epoch = 0; epoch < 4; ++epoch)
    for (int64_t i = 0; i < sets.train->size(); ++i) {
      const auto x = pixels_of(*sets.train, i, true, 1, epoch, of_drawings.pixels());
      auto p = scores_of(x);
      const float top = *std::max_element(p.begin(), p.end());
      float sum = 0;
      for (float& v : p) sum += v = std::exp(v - top);
      for (int64_t k = 0; k < classes; ++k) {
        const float gradient = p[k] / sum - (k == sets.train->label(i) ? 1.0f : 0.0f);
        for (int64_t j = 0; j < inputs; ++j) weights[k * inputs + j] -= 1e-5f * gradient * x[j];
      }
    }
  int64_t right = 0;
  for (int64_t i = 0; i < sets.test->size(); ++i) {
    const auto scores = scores_of(pixels_of(*sets.test, i, false, 1, 0, of_drawings.pixels()));
    right += std::max_element(scores.begin(), scores.end()) - scores.begin() == sets.test->label(i);
  }
  const double accuracy = static_cast<double>(right) / static_cast<double>(sets.test->size());
  RecordProperty("accuracy", std::to_string(accuracy));
  EXPECT_LT(accuracy, 0.6);
}

TEST(Synthetic, IsOfAnySize) {
  Config config;
  config.data.name = "synthetic";
  config.data.image_size = 48;
  config.data.samples = 1000;
  config.model.classes = 37;
  const Datasets sets = open_datasets(config);
  EXPECT_EQ(sets.train->size(), 1000);
  EXPECT_EQ(sets.train->shape().height, 48);
  double sum = 0, squares = 0;
  std::vector<int> labels(37);
  for (int64_t i = 0; i < 1000; ++i) ++labels.at(sets.train->label(i));
  for (int64_t i = 0; i < 64; ++i)
    for (float x : pixels_of(*sets.train, i)) {
      sum += x;
      squares += x * x;
    }
  // The mean of two uniform bytes, rounded down; five standard errors.
  const double count = 64.0 * 48 * 48 * 3, mean = sum / count, variance = (256.0 * 256 - 1) / 24;
  EXPECT_NEAR(mean, 127.25, 5 * std::sqrt(variance / count));
  EXPECT_NEAR(squares / count - mean * mean, variance, 5 * variance * std::sqrt(2 / count));
  EXPECT_GT(*std::min_element(labels.begin(), labels.end()), 0);
}

TEST(OpenDatasets, RefusesWhatDoesNotFit) {
  const auto refused = [](auto change) {
    Config config;
    change(config);
    return message_of<UsageError>([&] { open_datasets(config); });
  };
  expect_says(refused([](Config& c) { c.model.classes = 100; }),
              {"model.classes is 100", "10 classes", "set model.classes to 10"});
  expect_says(refused([](Config& c) { c.data.samples = 64; }), {"data.batch is 128", "only 64 images"});
  expect_says(refused([](Config& c) { c.data.image_size = 64; }), {"data.image_size is 64", "32 x 32"});
  expect_says(refused([](Config& c) { c.data.name = "coco", c.data.root = "x", c.data.image_size = 64; }),
              {"'coco' has images of many sizes", "data.short_side"});
  expect_says(refused([](Config& c) { c.data.name = "synthetic", c.model.classes = 1; }), {"set model.classes to 2"});
  expect_says(refused([](Config& c) { c.data.name = "mnist"; }), {"no data source `mnist`", "cifar10"});
  expect_says(refused([](Config& c) { c.data.name = "cifar10"; }), {"cifar10 needs `data.root`"});
  expect_says(refused([](Config& c) { c.data.name = "cifar10", c.data.root = "x", c.data.samples = 256; }),
              {"data.samples is 256"});
}

}  // namespace
}  // namespace octet
