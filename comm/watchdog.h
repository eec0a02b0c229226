// MPI has no time-outs: one rank that hangs holds all others for ever. The watchdog of a rank that makes no progress
// says where it stands and ends the job.
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
  // abort: ends the job (Transport::abort with code 1); called from the watchdog's thread. timeout in seconds; 0:
  // never.
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
