// How far a run is, what each of its ranks does, and whether it hangs: from its heartbeats, by any process that can
// read the run directory.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/hang.h"
#include "comm/heartbeat.h"
#include "src/train/straggler.h"

namespace octet {

struct RunStatus {
  // finished: there is a result. running: a process holds the run's lock, and no rank is silent too long. hangs: see
  // `hang`. starting: a process holds the lock, and there are no heartbeats of it yet. diverged: to resume it leads to
  // the same end. ended: no process trains here.
  enum class State : uint8_t { finished, running, hangs, starting, stopped, diverged, ended } state = State::ended;
  std::string directory;
  double now = 0;                // seconds since 1970, by the clock of this host
  std::optional<JobNote> job;    // of the last start
  std::vector<Heartbeat> ranks;  // that have written one
  int64_t step = 0;              // completed by all ranks that are seen
  std::optional<Hang> hang;
  std::optional<Straggler> straggler;
  std::optional<int64_t> checkpoint;  // step of the newest
  double checkpoint_age = 0;          // seconds

  double images_per_second() const;  // recently; 0: unknown
  double seconds_left() const;       // of steps, without evaluations; NaN: unknown
};

// UsageError: the directory is no run.
RunStatus read_run_status(const std::string& directory);
std::string text_of(const RunStatus&, size_t columns = 0);  // columns: of its table, see table_text()
nlohmann::ordered_json json_of(const RunStatus&);

}  // namespace octet
