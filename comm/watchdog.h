// MPI has no timeouts: if one rank hangs, all others wait without end. Each rank therefore has a watchdog. If the rank
// makes no progress, its watchdog prints the step and the phase, and ends the job.
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
  // timeout: the seconds that may pass without a heartbeat; 0: no limit. abort: ends the job (Transport::abort with
  // code 1); called in the thread of the watchdog.
  Watchdog(double timeout, int rank, std::string host, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A heartbeat: this rank enters the phase `name` of `step`. name: a string literal, since only the pointer is kept.
  // limits: the phase may take this many times the timeout. The call is cheap enough for every phase of every step.
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
