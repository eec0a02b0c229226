#include <gtest/gtest.h>

#include <cmath>

#include "src/train/schedule.h"

namespace octet {
namespace {

Config::Train recipe(const std::string& schedule) {
  Config::Train train;
  train.lr = 0.5;
  train.epochs = 8;
  train.schedule = schedule;
  return train;
}

TEST(Schedule, WarmsUpInALineAndNeverBeyond) {
  Config::Train train = recipe("constant");
  train.warmup_epochs = 2;
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_DOUBLE_EQ(learning_rate(train, step, 10), 0.5 * double(step + 1) / 20);
  EXPECT_EQ(learning_rate(train, 20, 10), 0.5);
  for (const double epochs : {0.01, 0.1, 0.25, 0.99}) {  // not a whole number of steps
    train.warmup_epochs = epochs;
    for (int64_t step = 0; step < 20; ++step) EXPECT_LE(learning_rate(train, step, 10), 0.5) << epochs << " " << step;
  }
}

TEST(Schedule, CosineFallsFromTheEndOfTheWarmupToZero) {
  Config::Train train = recipe("cosine");
  train.warmup_epochs = 2;
  EXPECT_EQ(learning_rate(train, 20, 10), 0.5);
  EXPECT_NEAR(learning_rate(train, 50, 10), 0.25, 1e-12);
  EXPECT_NEAR(learning_rate(train, 80, 10), 0, 1e-12);
  train.warmup_epochs = 8;  // all of it
  EXPECT_EQ(learning_rate(train, 79, 10), 0.5);
}

TEST(Schedule, StepsFallWithTheirEpochs) {
  Config::Train train = recipe("step");
  train.step_epochs = 3;
  train.gamma = 0.5;
  EXPECT_EQ(learning_rate(train, 29, 10), 0.5);
  EXPECT_EQ(learning_rate(train, 30, 10), 0.25);
  EXPECT_EQ(learning_rate(train, 60, 10), 0.125);
  train = recipe("multi_step");
  train.gamma = 0.5;
  train.milestones = {1, 5};
  EXPECT_EQ(learning_rate(train, 9, 10), 0.5);
  EXPECT_EQ(learning_rate(train, 10, 10), 0.25);
  EXPECT_EQ(learning_rate(train, 50, 10), 0.125);
}

// The learning rate does not depend on the C library: these are all of its bits.
TEST(Schedule, BitsAreTheSameEverywhere) {
  Config::Train train = recipe("cosine");
  train.lr = 0.1;
  train.epochs = 7;
  train.warmup_epochs = 1;
  EXPECT_EQ(learning_rate(train, 3, 10), 0x1.47ae147ae147cp-5);
  EXPECT_EQ(learning_rate(train, 10, 10), 0x1.999999999999ap-4);
  EXPECT_EQ(learning_rate(train, 11, 10), 0x1.9951bf86df5a6p-4);
  EXPECT_EQ(learning_rate(train, 23, 10), 0x1.6bf5a153bdaddp-4);
  EXPECT_EQ(learning_rate(train, 40, 10), 0x1.9999999999998p-5);
  EXPECT_EQ(learning_rate(train, 47, 10), 0x1.06cfff346deb5p-5);
  EXPECT_EQ(learning_rate(train, 69, 10), 0x1.1f684ae8fd124p-14);
  train = recipe("step");
  train.lr = 0.1;
  train.step_epochs = 1;
  EXPECT_EQ(learning_rate(train, 20, 10), 0x1.0624dd2f1a9fdp-10);
  EXPECT_EQ(learning_rate(train, 40, 10), 0x1.4f8b588e368f3p-17);
  EXPECT_EQ(learning_rate(train, 60, 10), 0x1.ad7f29abcaf4cp-24);
}

TEST(Schedule, CorrectionsOfAdamWFollowItsPowers) {
  Config::Train train = recipe("cosine");
  EXPECT_EQ(adamw_corrections(train, 5).mean, 1);
  train.optimizer = "adamw";
  train.momentum = 0.5, train.beta2 = 0.75;
  EXPECT_EQ(adamw_corrections(train, 0).mean, 0.5f);
  EXPECT_EQ(adamw_corrections(train, 0).root, 0.5f);
  EXPECT_EQ(adamw_corrections(train, 2).mean, 0.875f);
  EXPECT_EQ(adamw_corrections(train, 1'000'000'000).root, 1);
  train.beta2 = 0.999;
  EXPECT_NEAR(adamw_corrections(train, 999).root, std::sqrt(1 - std::pow(0.999, 1000)), 1e-7);
}

TEST(Schedule, CosineIsAccurateAndNeverRises) {
  Config::Train train = recipe("cosine");
  train.epochs = 1;
  for (int64_t step = 0; step < 10000; ++step) {
    const double now = learning_rate(train, step, 10000),
                 half = std::sin(std::acos(-1.0) / 2 * double(10000 - step) / 10000);
    ASSERT_NEAR(now, 0.5 * half * half, 1e-15) << step;
    ASSERT_GE(now, learning_rate(train, step + 1, 10000)) << step;
  }
}

}  // namespace
}  // namespace octet
