#include "comm/heart.h"

#include <unistd.h>

#include <utility>

namespace octet {
namespace {

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

// A mean over about the last twenty values.
void follow(double& mean, double value) { mean = mean > 0 ? mean + (value - mean) / 20 : value; }

}  // namespace

Heart::Heart(int rank, std::string host) {
  own_.rank = rank;
  own_.host = std::move(host);
  own_.process = getpid();
  enter(activity::start);
}

Heart::~Heart() { stop(); }

void Heart::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Heart::enter(const Activity& next) { enter(next, -1); }

void Heart::enter(const Activity& next, int64_t step) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  add_time(now, next, step);
  if (step >= 0) own_.step = step;
  own_.activity = next.name;
  own_.waits = next.waits;
  own_.limits = next.limits;
  own_.least = next.least;
  own_.moved = seconds_since_1970();
  ++own_.moves;
  moved_ = now;
}

void Heart::end(const Activity& how) {
  enter(how);
  stop();
}

// A step lasts from one reading of data to the next, unless something else came between them.
void Heart::add_time(Clock::time_point now, const Activity& next, int64_t step) {
  for (size_t part = 0; part < parts_.size(); ++part)
    if (own_.activity == timed_activities[part]->name) parts_[part] += seconds(now - moved_);
  const std::string_view name = next.name;  // equal literals of two files may have two addresses
  if (name != activity::reading.name) {
    if (name == activity::evaluation.name || name == activity::saving.name) stepped_ = {};
    return;
  }
  if (step == own_.step + 1 && stepped_ != Clock::time_point{}) {
    follow(own_.step_seconds, seconds(now - stepped_));
    for (size_t part = 0; part < parts_.size(); ++part) follow(own_.parts[part], parts_[part]);
  }
  parts_ = {};
  stepped_ = now;
}

void Heart::publish(const std::string& path, double interval, bool make) {
  {
    const std::lock_guard lock(mutex_);
    path_ = path;
    make_ = make;
    interval_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
    others_.clear();
  }
  wake_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread(&Heart::beat, this);
}

void Heart::beat() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = stop_;  // the last line says where the rank ended
    ++own_.beats;
    own_.beaten = seconds_since_1970();
    const Heartbeat mine = own_;
    const std::string path = path_;
    const bool make = make_;
    lock.unlock();
    write_heartbeat(path, mine, make);
    const std::vector<Heartbeat> read = read_heartbeat_file(path).heartbeats;
    lock.lock();
    if (path == path_) look(read);
    if (!stop_ && path == path_) wake_.wait_for(lock, interval_);
  }
}

void Heart::look(const std::vector<Heartbeat>& heartbeats) {
  looked_ = Clock::now();
  for (const Heartbeat& beat : heartbeats) {
    if (beat.rank == own_.rank) continue;
    const auto [at, is_new] = others_.try_emplace(beat.rank, Watched{beat, looked_, looked_});
    Watched& watched = at->second;
    if (beat.beats != watched.last.beats || beat.process != watched.last.process) watched.beaten = looked_;
    if (beat.moves != watched.last.moves || beat.process != watched.last.process) watched.moved = looked_;
    watched.last = beat;
  }
}

Sighting Heart::own() const {
  const std::lock_guard lock(mutex_);
  return {own_, 0, seconds(Clock::now() - moved_)};
}

std::vector<Sighting> Heart::others() const {
  const std::lock_guard lock(mutex_);
  std::vector<Sighting> all;
  for (const auto& [rank, watched] : others_)
    all.push_back({watched.last, seconds(looked_ - watched.beaten), seconds(looked_ - watched.moved)});
  return all;
}

void Heart::forgive(double stopped) {
  const auto time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(stopped));
  const std::lock_guard lock(mutex_);
  moved_ += time;
  for (auto& [rank, watched] : others_) {
    watched.beaten += time;
    watched.moved += time;
  }
}

}  // namespace octet
