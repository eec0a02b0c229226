#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "comm/watchdog.h"
#include "kernels/base/error.h"

namespace octet::test {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, SilenceEndsTheJobAndSaysWhere) {
  testing::internal::CaptureStderr();
  {
    std::promise<void> aborted;
    Heart heart(3, "node7");
    heart.enter({"exchange", true}, 42);
    Watchdog watchdog(heart, 1, 0.1, [&] { aborted.set_value(); });
    ASSERT_EQ(aborted.get_future().wait_for(10s), std::future_status::ready);
  }
  const std::string line = testing::internal::GetCapturedStderr();
  for (const char* part : {"rank 3", "node7", "pid ", "'exchange'", "step 42", "ending the job"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST(Watchdog, HeartbeatsKeepItQuiet) {
  std::atomic<bool> aborted = false;
  Heart heart(0, "node7");
  heart.enter({"forward"}, 0);
  Watchdog watchdog(heart, 1, 4.0, [&] { aborted = true; });
  testing::internal::CaptureStderr();
  for (int step = 0; step < 30; ++step) {
    heart.enter({"forward"}, step);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_FALSE(aborted);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Watchdog, WarnsLongBeforeTheLimitAndSaysWhenTheJobGoesOn) {
  EXPECT_EQ(warning_of(180), 30);
  EXPECT_EQ(warning_of(40), 10);
  testing::internal::CaptureStderr();
  Heart heart(0, "node7");
  heart.enter({"reading data"}, 5);
  {
    Watchdog watchdog(heart, 1, 2, [] {});
    std::this_thread::sleep_for(1200ms);
    heart.enter({"forward"}, 5);
    std::this_thread::sleep_for(400ms);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("no progress: rank 0 on node7"), std::string::npos) << text;
  EXPECT_NE(text.find("'reading data' of step 5"), std::string::npos) << text;
  EXPECT_NE(text.find("the job goes on"), std::string::npos) << text;
  EXPECT_EQ(text.find("ending the job"), std::string::npos) << text;
}

// A checkpoint on a slow disk may take several times the limit of a step, but not for ever.
TEST(Watchdog, AnActivityMayHaveSeveralLimits) {
  std::atomic<bool> aborted = false;
  Heart heart(0, "node7");
  heart.enter({"checkpoint", false, 20}, 1);
  testing::internal::CaptureStderr();
  Watchdog watchdog(heart, 1, 0.1, [&] { aborted = true; });
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(aborted);
  for (int wait = 0; wait < 100 && !aborted; ++wait) std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(aborted);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("'checkpoint' of step 1 for 2 s"), std::string::npos);
}

TEST(Watchdog, TimeInWhichTheProcessWasStoppedDoesNotCount) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no new thread in the child of a process with threads, which MPI makes";
#endif
  const pid_t job = fork();
  if (job == 0) {
    Heart heart(0, "node7");
    heart.enter({"forward"}, 1);
    Watchdog watchdog(heart, 1, 0.8, [] { _exit(1); });
    kill(getpid(), SIGSTOP);
    std::this_thread::sleep_for(200ms);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(job, &status, WUNTRACED), job);
  ASSERT_TRUE(WIFSTOPPED(status));
  std::this_thread::sleep_for(2s);
  kill(job, SIGCONT);
  ASSERT_EQ(waitpid(job, &status, 0), job);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Watchdog, ZeroMeansNever) {
  std::atomic<bool> aborted = false;
  Heart heart(0, "node7");
  heart.enter({"forward"}, 1);
  Watchdog watchdog(heart, 1, 0, [&] { aborted = true; });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(aborted);
  EXPECT_THROW(Watchdog(heart, 1, -1, [] {}), Error);
}

}  // namespace
}  // namespace octet::test
