#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "comm/heart.h"
#include "kernels/base/durable_file.h"

namespace octet::test {
namespace {

using namespace std::chrono_literals;

class HeartTest : public testing::Test {
 protected:
  HeartTest() { std::filesystem::create_directories(directory_); }
  ~HeartTest() override { std::filesystem::remove_all(directory_); }
  template <class Condition>
  static bool comes_true(const Condition& condition) {
    for (int wait = 0; wait < 1000 && !condition(); ++wait) std::this_thread::sleep_for(10ms);
    return condition();
  }
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("octet-heart-" + std::to_string(getpid()));
  const std::string file_ = directory_ / "heartbeats";
};

TEST_F(HeartTest, LinesAreReadAsTheyWereWritten) {
  create_heartbeat_file(file_, {"job1", 3, 5, 100, 64, 1764192000.25});
  Heartbeat beat;
  beat.rank = 2;
  beat.host = "a-host.of.a.cluster";
  beat.process = 4194303;
  beat.step = 123456789012;
  beat.activity = activity::awaiting_files.name;
  beat.waits = true;
  beat.limits = 10;
  beat.beats = 7;
  beat.moves = 8;
  beat.moved = 1764192001.5;
  beat.parts = {0.125, 0.25, 0.5, 1e-6};
  EXPECT_TRUE(write_heartbeat(file_, beat, false));
  const HeartbeatFile read = read_heartbeat_file(file_);
  ASSERT_TRUE(read.job);
  EXPECT_EQ(read.job->id, "job1");
  EXPECT_EQ(read.job->ranks, 3);
  EXPECT_EQ(read.job->total_steps, 100);
  ASSERT_EQ(read.heartbeats.size(), 1u);
  EXPECT_EQ(line_of(read.heartbeats[0]), line_of(beat));
  EXPECT_EQ(std::filesystem::file_size(file_), 4 * heartbeat_bytes);  // all of it was there before
}

TEST_F(HeartTest, AnythingElseIsNoHeartbeat) {
  EXPECT_TRUE(read_heartbeat_file(file_).heartbeats.empty());
  EXPECT_FALSE(write_heartbeat(file_, {}, false)) << "a deleted file must not come back";
  std::ofstream(file_) << std::string(3 * heartbeat_bytes, 'x');
  EXPECT_FALSE(read_heartbeat_file(file_).job);
  EXPECT_TRUE(read_heartbeat_file(file_).heartbeats.empty());
}

TEST_F(HeartTest, NumbersThatNoTrainingHasAreLeftOut) {
  const auto write = [&](const JobNote& job, const Heartbeat& beat) {
    std::ofstream(file_) << line_of(job) << line_of(beat);
    return read_heartbeat_file(file_);
  };
  const auto written = write({.id = "job1", .ranks = 3}, {.host = "h0", .activity = "start"});
  EXPECT_TRUE(written.job);
  EXPECT_EQ(written.heartbeats.size(), 1u);
  for (const int64_t ranks : {int64_t{-1}, int64_t{0}, int64_t{3'000'000}, INT64_MAX})
    EXPECT_FALSE(write({.id = "job1", .ranks = ranks}, {}).job) << ranks;
  EXPECT_FALSE(write({.id = "job1", .first_step = INT64_MIN}, {}).job);
  EXPECT_TRUE(write({}, {.rank = INT32_MAX, .host = "h0", .activity = "start"}).heartbeats.empty());
  EXPECT_TRUE(write({}, {.host = "h0", .step = INT64_MIN, .activity = "start"}).heartbeats.empty());
  EXPECT_TRUE(write({}, {.host = "h0", .activity = "start", .beaten = 1e300}).heartbeats.empty());
}

TEST_F(HeartTest, APipeIsNoFileOfHeartbeats) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);  // without a writer: to open it would wait
  EXPECT_TRUE(read_heartbeat_file(file_).heartbeats.empty());
  EXPECT_FALSE(write_heartbeat(file_, {}, false));
}

TEST_F(HeartTest, RanksSeeWhatOthersDoAndForHowLong) {
  create_heartbeat_file(file_, {"job1", 2, 0, 100, 64, 0});
  Heart first(0, "h0");
  first.publish(file_, 0.01);
  {
    Heart second(1, "h1");
    second.enter(activity::forward, 21);
    second.publish(file_, 0.01);
    ASSERT_TRUE(comes_true([&] { return !first.others().empty() && first.others()[0].last.activity == "forward"; }));
    const Sighting seen = first.others()[0];
    EXPECT_EQ(seen.last.host, "h1");
    EXPECT_EQ(seen.last.step, 21);
    ASSERT_TRUE(comes_true([&] { return first.others()[0].still > 0.2; }));  // it does not move, but its heart beats
    const double silent = first.others()[0].silent;
    EXPECT_LT(silent, first.others()[0].still);
    second.enter(activity::exchange, 21);
    ASSERT_TRUE(comes_true([&] { return first.others()[0].last.waits; }));
  }
  EXPECT_TRUE(comes_true([&] { return first.others()[0].silent > 0.2; }));
}

TEST_F(HeartTest, HowARankEndsIsWrittenBeforeItIsKilled) {
  create_heartbeat_file(file_, {"job1", 1, 0, 100, 64, 0});
  Heart heart(0, "h0");
  heart.publish(file_, 1000);
  heart.end(activity::diverged);
  heart.enter(activity::leaving);  // as the objects of a training do that an error destroys
  const HeartbeatFile read = read_heartbeat_file(file_);
  ASSERT_EQ(read.heartbeats.size(), 1u);
  EXPECT_EQ(read.heartbeats[0].activity, "diverged");
}

TEST_F(HeartTest, TimesOfStepsLeaveOutWhatIsNoTraining) {
  Heart heart(0, "h0");
  for (int64_t step = 1; step <= 3; ++step) {
    heart.enter(activity::reading, step);
    std::this_thread::sleep_for(20ms);
    heart.enter(activity::exchange);
    std::this_thread::sleep_for(20ms);
    if (step == 2) {
      heart.enter(activity::evaluation);
      std::this_thread::sleep_for(1s);
    }
  }
  const Heartbeat beat = heart.own().last;
  EXPECT_GE(beat.own_seconds(), 0.02);
  EXPECT_GE(beat.step_seconds, beat.own_seconds() + 0.019);
  EXPECT_LT(beat.step_seconds, 0.9);
}

}  // namespace
}  // namespace octet::test
