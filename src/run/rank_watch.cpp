#include "src/run/rank_watch.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "comm/launcher.h"
#include "kernels/base/durable_file.h"
#include "kernels/base/exit_codes.h"
#include "kernels/base/host_name.h"

namespace octet {
namespace {

double interval_of(double timeout) { return timeout > 0 ? std::clamp(timeout / 8, 0.01, 1.0) : 1.0; }

// To end the job, MPI asks its daemons, and they may hang too.
void leave_in(std::chrono::seconds patience) {
  std::thread([patience] {
    std::this_thread::sleep_for(patience);
    _exit(exit_hang);
  }).detach();
}

void leave() { _exit(exit_hang); }

}  // namespace

RankWatch::RankWatch(double timeout)
    : heart_(launched().rank, host_name()),
      watchdog_(heart_, launched().ranks, timeout, leave),
      interval_(interval_of(timeout)) {
  heart_.enter(activity::joining);
  if (const std::string directory = launched().host_directory; !directory.empty())
    heart_.publish(directory + "/octet-heartbeats", interval_, /*make=*/true);
}

RankWatch::Joined::Joined(RankWatch& watch, Transport& transport, double timeout) : watch_(watch), timeout_(timeout) {
  watch.heart_.enter(activity::start);
  watch.watchdog_.set(timeout, [&transport] {
    leave_in(std::chrono::seconds(10));
    transport.abort(exit_hang);
  });
}

RankWatch::Joined::~Joined() {
  if (watch_.heart_.own().last.activity != activity::stopped.name) watch_.heart_.enter(activity::leaving);
  watch_.watchdog_.set(timeout_, leave);
}

void RankWatch::make_file_again() {
  try {
    create_heartbeat_file(shared_, job_);
  } catch (const FileError& error) {
    spdlog::warn("no heartbeats can be seen: {}", error.what());
  }
}

void RankWatch::share(const std::string& directory, JobNote job, Transport& transport) {
  const bool leads = transport.rank() == 0;
  job.id = fmt::format("{:016x}", std::random_device()() * uint64_t{0x100000001} ^ static_cast<uint64_t>(getpid()));
  job.ranks = transport.size();
  job.started = seconds_since_1970();
  const std::string path = leads ? std::filesystem::absolute(directory).string() + "/heartbeats" : "";
  std::string shared = job.id + '\n' + path;  // a path may hold line breaks
  heart_.enter(leads ? activity::saving : activity::awaiting_files);
  if (leads) {
    shared_ = path, job_ = job;
    make_file_again();
  }
  heart_.enter(activity::comparing);
  uint64_t size = shared.size();
  transport.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  shared.resize(size);
  transport.broadcast(std::as_writable_bytes(std::span(shared)), 0);
  const size_t end = shared.find('\n');
  const std::string id = shared.substr(0, end), file = shared.substr(end + 1);
  const auto found = read_heartbeat_file(file).job;  // a file of this name on another disk is of another job
  const uint64_t sees = found && found->id == id ? 1 : 0;
  if (sees == 1) heart_.publish(file, interval_);
  std::vector<uint64_t> all(static_cast<size_t>(transport.size()));
  transport.all_gather(std::as_bytes(std::span(&sees, 1)), std::as_writable_bytes(std::span(all)));
  std::string blind;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] == 0) blind += say(blind.empty() ? "" : " ", rank);
  if (leads && !blind.empty())
    spdlog::warn("rank(s) {} cannot read {}: `octet status` and the watchdogs see no heartbeat of theirs", blind, path);
}

}  // namespace octet
