// What the threads of a CPU do in the loops of its kernels, for benches and plans.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace octet {

class LoopLog {
  using Clock = std::chrono::steady_clock;

 public:
  // off: nothing is noted. times: what each thread does. plans: work is cut for all threads, and the calling thread
  // does it alone, so that a machine of fewer cores can tell what there is to share out.
  enum class Mode : uint8_t { off, times, plans };
  // Loops that have the same name and the same number of pieces.
  struct Loop {
    int64_t calls = 0;
    double busy = 0;     // seconds of all threads
    double longest = 0;  // of those that were busy longest
    double waiting = 0;  // seconds that the others waited for those
  };
  using Key = std::pair<std::string, int64_t>;  // name, pieces that threads take one by one

  void start(Mode);
  // Of what follows.
  void name(const std::string& of);
  const std::map<Key, Loop>& loops() const { return loops_; }
  // Seconds from name() to name(), by name.
  const std::map<std::string, double>& seconds() const { return seconds_; }

  bool on() const { return mode_ != Mode::off; }
  bool alone() const { return mode_ == Mode::plans; }
  // One thread's time in one loop.
  struct Turn {
    int64_t pieces;
    double seconds;
  };
  // Adds a Turn to a list, if there is one.
  class Watch {
   public:
    Watch(std::vector<Turn>* turns, int64_t pieces) : turns_(turns), pieces_(pieces) {
      if (turns_ != nullptr) start_ = Clock::now();
    }
    void stop() const {
      if (turns_ != nullptr) turns_->push_back({pieces_, std::chrono::duration<double>(Clock::now() - start_).count()});
    }

   private:
    std::vector<Turn>* turns_;
    int64_t pieces_;
    Clock::time_point start_;
  };
  // by_thread: of a region's threads, whose loops are the same.
  void add(const std::vector<std::vector<Turn>>& by_thread);

 private:
  Mode mode_ = Mode::off;
  std::string name_;
  Clock::time_point named_ = {};
  std::map<Key, Loop> loops_;
  std::map<std::string, double> seconds_;
};

}  // namespace octet
