#include "comm/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "kernels/base/error.h"

namespace octet {

Watchdog::Watchdog(double timeout, int rank, std::string host, std::function<void()> abort)
    : timeout_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout))),
      rank_(rank),
      host_(std::move(host)),
      abort_(std::move(abort)) {
  REQUIRE(timeout >= 0 && timeout < 1e9, "give seconds, or 0 for no watchdog", "the watchdog's timeout is ", timeout);
  if (timeout > 0) thread_ = std::thread(&Watchdog::watch, this);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::phase(const char* name, int64_t step) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  step_ = step;
  beat_ = Clock::now();
}

// Heartbeats do not wake the thread; it looks again when the time-out of the last one it saw has passed.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point deadline = beat_ + timeout_;
    if (Clock::now() < deadline) {
      stopped_.wait_until(lock, deadline);
      continue;
    }
    std::fprintf(stderr,
                 "watchdog: rank %d on %s (pid %d) has stood in '%s' of step %lld for more than %g s; ending the job\n",
                 rank_, host_.c_str(), static_cast<int>(getpid()), name_, static_cast<long long>(step_),
                 std::chrono::duration<double>(timeout_).count());
    std::fflush(stderr);
    lock.unlock();
    abort_();
    return;
  }
}

}  // namespace octet
