#include "comm/heartbeat.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
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

std::optional<Heartbeat> heartbeat_of(const std::string& line) {
  std::istringstream words(line);
  Heartbeat beat;
  words >> beat.rank >> beat.host >> beat.process >> beat.step >> beat.beats >> beat.beaten >> beat.moves >>
      beat.moved >> beat.step_seconds >> beat.parts[0] >> beat.parts[1] >> beat.parts[2] >> beat.parts[3] >>
      beat.waits >> beat.limits >> beat.least >> std::ws;
  std::getline(words, beat.activity);
  if (!words) return {};
  beat.activity.erase(beat.activity.find_last_not_of(' ') + 1);
  return beat;
}

std::optional<JobNote> job_of(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  JobNote job;
  words >> kind >> job.id >> job.ranks >> job.first_step >> job.total_steps >> job.images >> job.started;
  if (!words || kind != job_word) return {};
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
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0644);
  if (file < 0) return false;
  const std::string line = line_of(beat);
  const off_t at = static_cast<off_t>(heartbeat_bytes) * (beat.rank + 1);
  const bool written = pwrite(file, line.data(), line.size(), at) == static_cast<ssize_t>(line.size());
  return close(file) == 0 && written;
}

HeartbeatFile read_heartbeat_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  HeartbeatFile file;
  for (size_t at = 0; at + heartbeat_bytes <= text.size(); at += heartbeat_bytes) {
    const std::string line = text.substr(at, heartbeat_bytes - 1);
    if (at == 0)
      file.job = job_of(line);
    else if (const auto beat = heartbeat_of(line); beat && (beat->rank + 1) * heartbeat_bytes == at)
      file.heartbeats.push_back(*beat);
  }
  return file;
}

}  // namespace octet
