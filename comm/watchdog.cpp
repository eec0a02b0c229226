#include "comm/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kernels/base/error.h"

namespace octet {

Watchdog::Watchdog(double timeout, int rank, std::string host, std::function<void()> abort)
    : timeout_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout))),
      rank_(rank),
      host_(std::move(host)),
      abort_(std::move(abort)) {
  REQUIRE(timeout >= 0 && timeout < 1e9, "set it to a number of seconds, or to 0 for no watchdog",
          "the watchdog's timeout is ", timeout);
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

void Watchdog::phase(const char* name, int64_t step, double limits) {
  const std::lock_guard lock(mutex_);
  name_ = name;
  step_ = step;
  limits_ = limits;
  beat_ = Clock::now();
}

// Heartbeats do not wake the thread; it checks at intervals. If it slept much longer than requested, the whole process
// was suspended. That time does not count.
void Watchdog::watch() {
  const Clock::duration nap = std::max<Clock::duration>(timeout_ / 8, std::chrono::milliseconds(1));
  std::unique_lock lock(mutex_);
  for (Clock::time_point looked = beat_; !stop_;) {
    const Clock::time_point now = Clock::now();
    if (now - looked > 2 * nap) beat_ = std::min(now, beat_ + (now - looked));
    looked = now;
    const auto limit = std::chrono::duration_cast<Clock::duration>(timeout_ * limits_);
    if (now < beat_ + limit) {
      stopped_.wait_for(lock, nap);
      continue;
    }
    std::fprintf(stderr,
                 "watchdog: rank %d on %s (pid %d) has been in '%s' of step %lld for more than %g s; ending the job\n",
                 rank_, host_.c_str(), static_cast<int>(getpid()), name_, static_cast<long long>(step_),
                 std::chrono::duration<double>(limit).count());
    std::fflush(stderr);
    lock.unlock();
    abort_();
    return;
  }
}

}  // namespace octet
