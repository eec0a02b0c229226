#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kernels/base/stop_signals.h"

namespace octet::test {
namespace {

TEST(StopSignals, ThatWereHeldArriveOnceTheyAreHandled) {
  const pid_t child = fork();
  if (child == 0) {
    hold({SIGUSR1});
    std::raise(SIGUSR1);
    const bool early = stop_requested();
    stop_on({SIGUSR1});
    _exit(!early && stop_requested() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(StopSignals, AreNotedAndForwarded) {
  EXPECT_FALSE(stop_requested());
  stop_on({SIGUSR2});
  struct sigaction action = {};
  sigaction(SIGUSR2, nullptr, &action);
  EXPECT_TRUE(action.sa_flags & SA_RESTART);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  forward_stop_to(child);
  std::raise(SIGUSR2);
  EXPECT_TRUE(stop_requested());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) << status;
  forward_stop_to(0);
  std::raise(SIGUSR2);
}

}  // namespace
}  // namespace octet::test
