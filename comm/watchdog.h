// MPI has no timeouts: if one rank hangs, all others wait forever. If a rank makes no progress, its watchdog prints the
// current phase and ends the job.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace octet {

class Watchdog {
 public:
  // abort: ends the job (Transport::abort with code 1); called from the watchdog's thread. timeout: in seconds; 0:
  // none.
  Watchdog(double timeout, int rank, std::string host, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A heartbeat: this rank enters phase `name` of `step`. name: a string literal. A call is cheap enough for every
  // phase of every step. limits: the phase's limit, as a multiple of the timeout.
  void phase(const char* name, int64_t step, double limits = 1);

 private:
  void watch();

  using Clock = std::chrono::steady_clock;
  const Clock::duration timeout_;
  const int rank_;
  const std::string host_;
  const std::function<void()> abort_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  const char* name_ = "start";
  int64_t step_ = 0;
  double limits_ = 1;
  Clock::time_point beat_ = Clock::now();
  std::thread thread_;
};

}  // namespace octet
