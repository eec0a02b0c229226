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

}  // namespace
}  // namespace octet
