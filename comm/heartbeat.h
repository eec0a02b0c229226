// What a rank says about itself: one line of a file, which every rank rewrites in place and any shell can read.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/activity.h"

namespace octet {

struct Heartbeat {
  int rank = 0;
  std::string host;
  int64_t process = 0;
  int64_t step = 0;
  std::string activity;
  bool waits = false;
  double limits = 1, least = 0;  // see Activity
  int64_t beats = 0, moves = 0;  // times that the line was written; activities that were entered
  double beaten = 0, moved = 0;  // when that was last, in seconds since 1970 by the clock of its host
  // Seconds of a recent step in `reading`, `forward`, `backward` and `update`, and in all, with what is waited for.
  std::array<double, 4> parts{};
  double step_seconds = 0;
  double own_seconds() const { return parts[0] + parts[1] + parts[2] + parts[3]; }
};

// Of Heartbeat::parts.
inline constexpr const Activity* timed_activities[] = {&activity::reading, &activity::forward, &activity::backward,
                                                       &activity::update};

// What the first line says about the job.
struct JobNote {
  std::string id = {};  // of the job; a word
  int64_t ranks = 1;
  int64_t first_step = 0, total_steps = 0;
  int64_t images = 0;  // of a step, over all ranks
  double started = 0;  // seconds since 1970
};

struct HeartbeatFile {
  std::optional<JobNote> job;         // empty: the file has no such line
  std::vector<Heartbeat> heartbeats;  // of the ranks that have written their line, by rank
};

constexpr int most_ranks = 4096;         // of a job whose heartbeats are read
constexpr size_t heartbeat_bytes = 320;  // of each line, so that a rank finds its own

std::string line_of(const Heartbeat&);
std::string line_of(const JobNote&);
// Writes the first line and blank ones for all ranks, so that no later beat needs space on the disk. FileError.
void create_heartbeat_file(const std::string& path, const JobNote&);
// Rewrites the line of a rank. False: the file cannot be written. make: also makes the file.
bool write_heartbeat(const std::string& path, const Heartbeat&, bool make);
// Lines that are no heartbeats are left out, as are those with numbers that no training has.
HeartbeatFile parse_heartbeats(std::string_view text);
// Without a regular file of a fitting size there are none.
HeartbeatFile read_heartbeat_file(const std::string& path);

double seconds_since_1970();

}  // namespace octet
