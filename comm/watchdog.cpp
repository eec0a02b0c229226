#include "comm/watchdog.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "comm/launcher.h"
#include "comm/networks.h"
#include "comm/unanswered.h"
#include "kernels/base/error.h"

namespace octet {
namespace {

using Seconds = std::chrono::duration<double>;

void require_timeout(double timeout) {
  REQUIRE(timeout >= 0 && timeout < 1e9, "give seconds, or 0 for no watchdog", "the watchdog's timeout is ", timeout);
}

// Standard error may be a pipe that nobody reads any more, so no log is asked to write.
void print(const std::string& text) {
  std::fprintf(stderr, "watchdog: %s\n", text.c_str());
  std::fflush(stderr);
}

bool joins(const Sighting& own) { return own.last.activity == activity::joining.name; }

// Ranks that do not find each other see only those of their own host. So the network is what can be told.
std::string explain_joining(const Sighting& own, const std::vector<Sighting>& others) {
  std::vector<std::string> seen = {own.last.host};
  for (const Sighting& other : others) seen.push_back(other.last.host);
  const std::vector<Network> here = networks();
  const std::string hosts = unseen_hosts(launched().hosts, seen, here), addresses = list_of(here);
  return say(hosts.empty() ? "" : say("; not seen from here: ", hosts),
             addresses.empty() ? "" : say("; this host has ", addresses));
}

// If ranks wait for each other, the network may be the cause.
std::string explain(const Hang& hang, const Sighting& own, const std::vector<Sighting>& others) {
  if (joins(own)) return say(hang.reason, explain_joining(own, others));
  std::string addresses;
  if (!hang.rank)
    for (const std::string& address : unanswered()) addresses += say(addresses.empty() ? "" : " ", address);
  return addresses.empty() ? hang.reason : say(hang.reason, "; the network brings no answer from ", addresses);
}

}  // namespace

double warning_of(double timeout) { return std::min(30.0, timeout / 4); }

Watchdog::Watchdog(Heart& heart, int ranks, double timeout, std::function<void()> abort)
    : heart_(heart), ranks_(ranks), timeout_(timeout), abort_(std::move(abort)) {
  require_timeout(timeout);
  thread_ = std::thread(&Watchdog::watch, this);
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::set(double timeout, std::function<void()> abort) {
  require_timeout(timeout);
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
  abort_ = std::move(abort);
  changed_.notify_one();
}

// Heartbeats do not wake the thread; it looks at intervals. If it slept much longer than it asked to, the whole process
// was stopped, for example in a suspended job. That time does not count.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  for (Clock::time_point looked = created_; !stop_;) {
    const Seconds nap(timeout_ > 0 ? std::clamp(timeout_ / 8, 0.001, 1.0) : 3600);
    changed_.wait_for(lock, nap);
    const Seconds took = Clock::now() - std::exchange(looked, Clock::now());
    if (stop_ || timeout_ <= 0) continue;
    if (took > 2 * nap) heart_.forgive(took.count());
    if (const auto hang = find_hang(heart_.own(), heart_.others(), ranks_, timeout_)) {
      lock.unlock();
      return end_job(*hang);
    }
    warn(warning_of(timeout_));
  }
}

void Watchdog::warn(double seconds) {
  const Sighting own = heart_.own();
  const std::vector<Sighting> others = heart_.others();
  const auto hang = find_hang(own, others, ranks_, seconds);
  if (hang.has_value() == stuck_) return;
  stuck_ = hang.has_value();
  if (!stuck_ && std::exchange(warned_, false))
    print(say("the job goes on: rank ", own.last.rank, " is in '", own.last.activity, "' of step ", own.last.step));
  else if (stuck_ && (warned_ = speaks_first(own, others, *hang)))
    print(say("no progress: ", explain(*hang, own, others),
              "; the job ends if this lasts longer than comm.timeout_seconds allows"));
}

// The first rank that speaks ends the others, which therefore wait a little; so the sentence comes once.
void Watchdog::end_job(const Hang& hang) {
  const Sighting own = heart_.own();
  const std::vector<Sighting> others = heart_.others();
  if (!speaks_first(own, others, hang)) std::this_thread::sleep_for(std::chrono::seconds(2));
  const bool other = hang.rank != own.last.rank;
  print(say(explain(hang, own, others), "; ",
            other ? say("seen by rank ", own.last.rank, " on ", own.last.host, "; ") : "", "ending the job\n  fix: ",
            joins(own) ? "the hosts must reach each other; where they have several networks, name the right one to "
                         "launch/mpirun.sh or launch/slurm.sbatch, for example INTERFACE=eth0"
                       : "look at that process or its host, and continue with --resume; comm.timeout_seconds is the "
                         "limit"));
  std::function<void()> abort;
  {
    const std::lock_guard lock(mutex_);
    abort = abort_;
  }
  abort();
}

}  // namespace octet
