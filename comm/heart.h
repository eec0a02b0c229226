// The heartbeat of this rank. The thread that trains says what it does; a thread of the heart writes it to a file and
// reads there what the other ranks do. A hanging file system stops that thread alone.
#pragma once
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/heartbeat.h"

namespace octet {

// What is known of a rank, by this rank's clock.
struct Sighting {
  Heartbeat last;
  double silent = 0;  // seconds in which its line has not changed: its process is stopped, or its host is lost
  double still = 0;   // seconds in which it has not entered another activity
};

class Heart {
 public:
  Heart(int rank, std::string host);
  ~Heart();
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  // This rank begins something else, or the next piece of the same. Cheap enough for every phase of every step.
  void enter(const Activity&);
  void enter(const Activity&, int64_t step);

  // This rank ends so: writes it before the launcher ends the process, and beats no more.
  void end(const Activity&);

  // From now on, writes to this file and reads from it, as often as `interval` says (seconds). Blocks no longer than a
  // write takes. make: makes the file.
  void publish(const std::string& path, double interval, bool make = false);

  Sighting own() const;
  // Of the other ranks whose lines could be read, at the last reading, by rank.
  std::vector<Sighting> others() const;
  // The process was stopped for so many seconds, which do not count.
  void forgive(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Heartbeat last;
    Clock::time_point beaten, moved;
  };
  void beat();
  void stop();
  void look(const std::vector<Heartbeat>& heartbeats);
  void add_time(Clock::time_point now, const Activity& next, int64_t step);

  mutable std::mutex mutex_;
  Heartbeat own_;
  Clock::time_point moved_ = Clock::now();
  Clock::time_point stepped_;      // when the present step began; zero: something else came between
  std::array<double, 4> parts_{};  // of the present step so far, see Heartbeat
  std::map<int, Watched> others_;
  Clock::time_point looked_ = moved_;
  std::string path_;
  bool make_ = false, stop_ = false;
  Clock::duration interval_{};
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace octet
