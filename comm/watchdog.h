// MPI has no timeouts: if one rank hangs, all others wait without end. The watchdog of a rank without progress prints
// the step and the phase, and ends the job.
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
  // timeout: seconds without a heartbeat; 0: no limit. abort: ends the job (Transport::abort with code 1); called in
  // the thread of the watchdog.
  Watchdog(double timeout, int rank, std::string host, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A heartbeat: this rank enters `name` (a literal) of `step`. Cheap enough for every phase of every step. limits: how
  // many times the timeout this phase may take.
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
