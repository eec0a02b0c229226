// MPI has no timeouts: if one rank hangs, all others wait without end. Each rank therefore has a watchdog. It warns
// when nothing goes on, and at the limit it names the rank that holds the others up, and ends the job.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/hang.h"
#include "comm/heart.h"

namespace octet {

class Watchdog {
 public:
  // timeout: the seconds that an activity may take, see Activity; 0: no limit. ranks: of the job. abort: ends the job;
  // called in the thread of the watchdog.
  Watchdog(Heart& heart, int ranks, double timeout, std::function<void()> abort);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on.
  void set(double timeout, std::function<void()> abort);

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void warn(double seconds);
  void end_job(const Hang&);

  Heart& heart_;
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  double timeout_;
  std::function<void()> abort_;
  const Clock::time_point created_ = Clock::now();
  bool stop_ = false, stuck_ = false, warned_ = false;
  std::thread thread_;
};

// The seconds without progress after which a watchdog warns.
double warning_of(double timeout);

}  // namespace octet
