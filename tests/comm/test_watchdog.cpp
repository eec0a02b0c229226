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
    Watchdog watchdog(0.1, 3, "node7", [&] { aborted.set_value(); });
    watchdog.phase("exchange", 42);
    ASSERT_EQ(aborted.get_future().wait_for(10s), std::future_status::ready);
  }
  const std::string line = testing::internal::GetCapturedStderr();
  for (const char* part : {"rank 3", "node7", "pid ", "'exchange'", "step 42"})
    EXPECT_NE(line.find(part), std::string::npos) << line;
}

TEST(Watchdog, HeartbeatsKeepItQuiet) {
  std::atomic<bool> aborted = false;
  Watchdog watchdog(1.0, 0, "node7", [&] { aborted = true; });
  for (int step = 0; step < 30; ++step) {
    watchdog.phase("forward", step);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_FALSE(aborted);
}

// A checkpoint on a slow disk may take several times the limit of a step, but not for ever.
TEST(Watchdog, APhaseMayHaveSeveralLimits) {
  std::atomic<bool> aborted = false;
  Watchdog watchdog(0.1, 0, "node7", [&] { aborted = true; });
  testing::internal::CaptureStderr();
  watchdog.phase("checkpoint", 1, 20);
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(aborted);
  for (int wait = 0; wait < 100 && !aborted; ++wait) std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(aborted);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("'checkpoint' of step 1 for more than 2 s"), std::string::npos);
}

TEST(Watchdog, TimeInWhichTheProcessWasStoppedDoesNotCount) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no new thread in the child of a process with threads, which MPI makes";
#endif
  const pid_t job = fork();
  if (job == 0) {
    Watchdog watchdog(0.8, 0, "node7", [] { _exit(1); });
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
  Watchdog watchdog(0, 0, "node7", [&] { aborted = true; });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(aborted);
  EXPECT_THROW(Watchdog(-1, 0, "node7", [] {}), Error);
}

}  // namespace
}  // namespace octet::test
