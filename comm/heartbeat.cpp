#include "comm/heartbeat.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "kernels/base/durable_file.h"

namespace octet {
namespace {

constexpr const char* job_word = "octet-heartbeats";

// Cut or filled to a line.
std::string padded(std::string text) {
  text.resize(heartbeat_bytes - 1, ' ');
  return text + "\n";
}

// A file may hold anything. Sums and differences of these numbers stay far from the limits of their types.
bool is_count(int64_t number) { return number >= 0 && number <= int64_t{1} << 48; }
bool is_time(double seconds) { return seconds >= 0 && seconds <= 1e12; }

bool is_plausible(const Heartbeat& beat) {
  return beat.rank >= 0 && beat.rank < most_ranks && is_count(beat.process) && is_count(beat.step) &&
         is_count(beat.beats) && is_count(beat.moves) && is_time(beat.beaten) && is_time(beat.moved) &&
         is_time(beat.step_seconds) && std::ranges::all_of(beat.parts, is_time) && is_time(beat.limits) &&
         is_time(beat.least);
}

std::optional<Heartbeat> heartbeat_of(const std::string& line) {
  std::istringstream words(line);
  Heartbeat beat;
  words >> beat.rank >> beat.host >> beat.process >> beat.step >> beat.beats >> beat.beaten >> beat.moves >>
      beat.moved >> beat.step_seconds >> beat.parts[0] >> beat.parts[1] >> beat.parts[2] >> beat.parts[3] >>
      beat.waits >> beat.limits >> beat.least >> std::ws;
  std::getline(words, beat.activity);
  if (!words || !is_plausible(beat)) return {};
  beat.activity.erase(beat.activity.find_last_not_of(' ') + 1);
  return beat;
}

std::optional<JobNote> job_of(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  JobNote job;
  words >> kind >> job.id >> job.ranks >> job.first_step >> job.total_steps >> job.images >> job.started;
  const bool plausible = job.ranks >= 1 && job.ranks <= most_ranks && is_count(job.first_step) &&
                         is_count(job.total_steps) && is_count(job.images) && is_time(job.started);
  if (!words || kind != job_word || !plausible) return {};
  return job;
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string line_of(const Heartbeat& beat) {
  char text[heartbeat_bytes];
  std::snprintf(text, sizeof text, "%d %.64s %lld %lld %lld %.3f %lld %.3f %.6f %.6f %.6f %.6f %.6f %d %g %g %s",
                beat.rank, beat.host.c_str(), static_cast<long long>(beat.process), static_cast<long long>(beat.step),
                static_cast<long long>(beat.beats), beat.beaten, static_cast<long long>(beat.moves), beat.moved,
                beat.step_seconds, beat.parts[0], beat.parts[1], beat.parts[2], beat.parts[3], beat.waits ? 1 : 0,
                beat.limits, beat.least, beat.activity.c_str());
  return padded(text);
}

std::string line_of(const JobNote& job) {
  char text[heartbeat_bytes];
  std::snprintf(text, sizeof text, "%s %s %lld %lld %lld %lld %.3f", job_word, job.id.c_str(),
                static_cast<long long>(job.ranks), static_cast<long long>(job.first_step),
                static_cast<long long>(job.total_steps), static_cast<long long>(job.images), job.started);
  return padded(text);
}

void create_heartbeat_file(const std::string& path, const JobNote& job) {
  std::string text = line_of(job);
  for (int64_t rank = 0; rank < job.ranks; ++rank) text += padded("");
  write_durably(path, text);
}

// The file is opened for each beat: a network file system shows other hosts what was written when it is closed.
bool write_heartbeat(const std::string& path, const Heartbeat& beat, bool make) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (make ? O_CREAT : 0), 0644);
  if (file < 0) return false;
  const std::string line = line_of(beat);
  const off_t at = static_cast<off_t>(heartbeat_bytes) * (beat.rank + 1);
  const bool written = pwrite(file, line.data(), line.size(), at) == static_cast<ssize_t>(line.size());
  return close(file) == 0 && written;
}

HeartbeatFile parse_heartbeats(std::string_view text) {
  HeartbeatFile file;
  for (size_t at = 0; at + heartbeat_bytes <= text.size(); at += heartbeat_bytes) {
    const std::string line(text.substr(at, heartbeat_bytes - 1));
    if (at == 0)
      file.job = job_of(line);
    else if (const auto beat = heartbeat_of(line);
             beat && (static_cast<size_t>(beat->rank) + 1) * heartbeat_bytes == at)
      file.heartbeats.push_back(*beat);
  }
  return file;
}

HeartbeatFile read_heartbeat_file(const std::string& path) {
  try {
    return parse_heartbeats(read_if_there(path, int64_t{heartbeat_bytes} * (most_ranks + 1)));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace octet
