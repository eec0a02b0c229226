#include "src/report/run_status.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/base/terminal.h"
#include "kernels/base/text.h"
#include "src/config/path_kind.h"
#include "src/run/best_weights.h"
#include "src/run/checkpoint_store.h"
#include "src/run/directory_lock.h"
#include "src/train/progress.h"

namespace octet {
namespace {

namespace fs = std::filesystem;
using State = RunStatus::State;

constexpr double hang_after = 30;  // seconds, as a watchdog warns
constexpr double fresh = 15;       // seconds: a heartbeat of a process that lives, with some difference of clocks

const char* name_of(State state) {
  constexpr const char* names[] = {
      "finished", "running", "hangs", "starting", "stopped by a signal", "diverged", "ended without a result"};
  return names[static_cast<size_t>(state)];
}

double age(double now, double then) { return std::max(0.0, now - then); }

Sighting sighting_of(const Heartbeat& rank, double now) { return {rank, age(now, rank.beaten), age(now, rank.moved)}; }

// As the watchdog of each rank sees it; a rank that gives no sign of life has none.
std::optional<Hang> hang_of(const RunStatus& status) {
  size_t silent = 0;
  for (size_t own = 0; own < status.ranks.size(); ++own) {
    std::vector<Sighting> others;
    for (size_t other = 0; other < status.ranks.size(); ++other)
      if (other != own) others.push_back(sighting_of(status.ranks[other], status.now));
    const Sighting seen = sighting_of(status.ranks[own], status.now);
    if (seen.silent >= hang_after) {
      ++silent;
      continue;
    }
    if (auto hang = find_hang(seen, others, int(status.job ? status.job->ranks : 1), hang_after)) return hang;
  }
  if (silent < status.ranks.size()) return {};
  return Hang{{}, "no rank gives a sign of life", age(status.now, status.ranks.front().beaten)};
}

// The step that a rank names is not complete while it is in it.
int64_t completed(const Heartbeat& rank) {
  const bool in_step =
      rank.activity == activity::exchange.name ||
      std::ranges::any_of(timed_activities, [&](const Activity* a) { return rank.activity == a->name; });
  return rank.step - (in_step ? 1 : 0);
}

std::string seconds_text(double seconds) {
  return seconds < 100 ? fmt::format("{:.1f} s", seconds) : clock_text(seconds);
}

double step_seconds(const RunStatus& status) {
  double longest = 0;
  for (const Heartbeat& rank : status.ranks) longest = std::max(longest, rank.step_seconds);
  return longest;
}

double images_of_rank(const RunStatus& status, const Heartbeat& rank) {
  if (!status.job || rank.own_seconds() <= 0) return 0;
  return double(status.job->images) / double(status.job->ranks) / rank.own_seconds();
}

std::string table_of(const RunStatus& status, size_t columns) {
  std::vector<TableColumn> head = {{"rank", true}, {"host"},      {"pid", true},      {"step", true},
                                   {"activity"},   {"for", true}, {"last beat", true}};
  for (const Activity* activity : timed_activities) {
    const std::string_view name = activity->name;
    head.push_back({std::string(name.substr(0, name.find(' '))), true});
  }
  head.insert(head.end(), {{"own", true}, {"waits", true}, {"own img/s", true}});
  std::vector<std::vector<std::string>> rows;
  for (const Heartbeat& rank : status.ranks) {
    rows.push_back({say(rank.rank), printable(rank.host), say(rank.process), say(rank.step), printable(rank.activity),
                    seconds_text(age(status.now, rank.moved)), seconds_text(age(status.now, rank.beaten))});
    for (const double part : rank.parts) rows.back().push_back(fmt::format("{:.4f}", part));
    for (const double seconds : {rank.own_seconds(), std::max(0.0, rank.step_seconds - rank.own_seconds())})
      rows.back().push_back(fmt::format("{:.4f}", seconds));
    rows.back().push_back(fmt::format("{:.0f}", images_of_rank(status, rank)));
  }
  return table_text(head, rows, columns) +
         "reading to waits: seconds of a recent step; own: without what the rank waits for\n";
}

// Whether a heart still beats, where the file system has no locks that would say that a process trains.
bool beats(const std::string& directory, const RunStatus& status) {
  if (std::ranges::all_of(status.ranks, [&](const Heartbeat& rank) { return age(status.now, rank.beaten) > fresh; }))
    return false;
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (const Heartbeat& now : read_heartbeat_file(directory + "/heartbeats").heartbeats)
    for (const Heartbeat& before : status.ranks)
      if (now.rank == before.rank && now.beats != before.beats) return true;
  return false;
}

bool any_is(const RunStatus& status, const Activity& activity) {
  return std::ranges::any_of(status.ranks, [&](const auto& rank) { return rank.activity == activity.name; });
}

// A sentence on the ranks that have not written a heartbeat.
std::string unseen(const RunStatus& status) {
  std::vector<int> ranks;
  for (int rank = 0; status.job && rank < status.job->ranks; ++rank)
    if (std::ranges::find(status.ranks, rank, &Heartbeat::rank) == status.ranks.end()) ranks.push_back(rank);
  if (ranks.empty()) return {};
  return fmt::format(
      "nothing is seen of rank(s) {}: they have just been started, or their hosts do not share this file system\n",
      few_of(ranks));
}

}  // namespace

double RunStatus::images_per_second() const {
  const double seconds = step_seconds(*this);
  return job && seconds > 0 ? double(job->images) / seconds : 0;
}

double RunStatus::seconds_left() const {
  if (!job) return NAN;
  // Since the start, to count evaluations and checkpoints too; of a single step before there is another one.
  const int64_t done = step - job->first_step;
  const double seconds = done > 0 ? (now - job->started) / double(done) : step_seconds(*this);
  return seconds > 0 ? double(job->total_steps - step) * seconds : NAN;
}

RunStatus read_run_status(const std::string& directory) {
  REQUIRE_USAGE(fs::exists(directory + "/config.yaml") || fs::exists(directory + "/lock"),
                "give the directory of a run: what `octet train` named as its run directory", directory, " is ",
                name_of(kind_of_path(directory)), ", not the directory of a run");
  RunStatus status;
  status.directory = directory;
  const bool held = DirectoryLock::held(directory);
  const HeartbeatFile file = read_heartbeat_file(directory + "/heartbeats");
  status.job = file.job;
  status.ranks = file.heartbeats;
  status.now = seconds_since_1970();
  if (const auto newest = CheckpointStore::newest_of(directory)) {
    status.checkpoint = newest->step;
    status.checkpoint_age = age(status.now, newest->written);
  }
  if (const auto slow = std::ranges::min_element(status.ranks, {}, &Heartbeat::step); slow != status.ranks.end())
    status.step = completed(*slow);
  status.straggler = slowest(status.ranks);
  if (fs::exists(directory + "/result.json") && !held)
    status.state = State::finished;
  else if (!held && !beats(directory, status))
    status.state = any_is(status, activity::diverged)  ? State::diverged
                   : any_is(status, activity::stopped) ? State::stopped
                                                       : State::ended;
  else if (status.ranks.empty())
    status.state = State::starting;
  else
    status.state = (status.hang = hang_of(status)) ? State::hangs : State::running;
  return status;
}

std::string text_of(const RunStatus& status, size_t columns) {
  std::string text = fmt::format("{}: {}", status.directory, name_of(status.state));
  if (status.job && status.state != State::starting) {
    const double share = 100.0 * double(status.step) / double(std::max<int64_t>(status.job->total_steps, 1));
    text += fmt::format(", step {} of {} ({:.1f} %)", status.step, status.job->total_steps, share);
    if (status.state == State::running && status.images_per_second() > 0)
      text += fmt::format(", {:.0f} img/s, ETA {}", status.images_per_second(), clock_text(status.seconds_left()));
  }
  text += "\n";
  text += status.checkpoint ? fmt::format("last checkpoint: step {}, {} ago\n", *status.checkpoint,
                                          seconds_text(status.checkpoint_age))
                            : "no checkpoint yet\n";
  if (status.hang) text += "HANGS: " + printable(status.hang->reason) + "\n";
  if (status.state == State::ended || status.state == State::stopped)
    text += "no process trains here; `octet train ... --resume` continues\n";
  if (status.state == State::diverged)
    text += "no process trains here, and --resume leads to the same end; " + way_back(status.directory) + "\n";
  if (status.ranks.empty() || status.state == State::finished || status.state == State::stopped) return text;
  text += "\n" + table_of(status, columns) + unseen(status);
  if (status.straggler) text += printable(status.straggler->sentence) + "\n";
  return text;
}

nlohmann::ordered_json json_of(const RunStatus& status) {
  nlohmann::ordered_json json = {{"run", status.directory}, {"state", name_of(status.state)}, {"step", status.step}};
  if (status.job) {
    json["steps"] = status.job->total_steps;
    json["started"] = status.job->started;
    json["images_per_second"] = status.images_per_second();
    json["seconds_left"] = status.seconds_left();  // null where it is not known
  }
  if (status.checkpoint) json["checkpoint"] = {{"step", *status.checkpoint}, {"age_seconds", status.checkpoint_age}};
  if (status.hang) {
    json["hang"] = {{"reason", status.hang->reason}, {"seconds", status.hang->seconds}};
    if (status.hang->rank) json["hang"]["rank"] = *status.hang->rank;
  }
  if (status.straggler) json["straggler"] = {{"rank", status.straggler->rank}, {"factor", status.straggler->factor}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (const Heartbeat& rank : status.ranks) {
    nlohmann::ordered_json row = {{"rank", rank.rank},
                                  {"host", rank.host},
                                  {"pid", rank.process},
                                  {"step", rank.step},
                                  {"activity", rank.activity},
                                  {"waits", rank.waits},
                                  {"activity_seconds", age(status.now, rank.moved)},
                                  {"beat_seconds", age(status.now, rank.beaten)},
                                  {"own_step_seconds", rank.own_seconds()},
                                  {"own_images_per_second", images_of_rank(status, rank)}};
    for (size_t part = 0; part < rank.parts.size(); ++part)
      row["step_seconds"][timed_activities[part]->name] = rank.parts[part];
    json["ranks"].push_back(std::move(row));
  }
  return json;
}

}  // namespace octet
