#include "src/train/host_limits.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "kernels/base/error.h"

namespace octet {
namespace {

bool names(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != list.npos;
}

// mountinfo writes a space as \040.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += char(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// A hierarchy of control groups: version 1 has one for each controller or several of them, version 2 one for all.
struct Hierarchy {
  std::string top, point;  // the group that is mounted, and the folder where
};

std::optional<Hierarchy> find_hierarchy(const std::string& root, const std::string& controller) {
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string skipped, top, point, type, source, options;
    words >> skipped >> skipped >> skipped >> top >> point;
    while (words >> skipped && skipped != "-") continue;
    words >> type >> source >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && names(options, controller))
      return Hierarchy{unescaped(top), unescaped(point)};
  }
  return std::nullopt;
}

// The folders of this process's group and of those around it, the outermost first. controller: of version 1; empty:
// version 2. What lies outside of the container cannot be seen.
std::vector<std::string> groups(const std::string& root, const std::string& controller) {
  const std::optional<Hierarchy> hierarchy = find_hierarchy(root, controller);
  if (!hierarchy) return {};
  std::ifstream own(root + "/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !controllers.empty() : !names(controllers, controller)) continue;
    std::string path = line.substr(second + 1), top = hierarchy->top == "/" ? "" : hierarchy->top;
    // A container may see its group under the name that the host gives it.
    if (!(path + "/").starts_with(top + "/") || path.find("/..") != path.npos) path = top;
    std::vector<std::string> folders = {root + hierarchy->point};
    std::istringstream parts(path.substr(top.size()));
    for (std::string part; std::getline(parts, part, '/');)
      if (!part.empty()) folders.push_back(folders.back() + "/" + part);
    return folders;
  }
  return {};
}

// The number that a file holds, or of a file with several lines the one after `name`. None: no file, `max`.
std::optional<double> number_in(const std::string& file, const std::string& name = "") {
  std::ifstream figures(file);
  std::string word;
  while (!name.empty() && figures >> word && word != name) continue;
  double number = 0;
  return figures >> number ? std::optional(number) : std::nullopt;
}

// Processor time of a group, in cores.
std::optional<double> cpus_of(const std::string& group) {
  std::ifstream both(group + "/cpu.max");
  double quota = 0, period = 0;
  if (!(both >> quota >> period)) {
    quota = number_in(group + "/cpu.cfs_quota_us").value_or(0);
    period = number_in(group + "/cpu.cfs_period_us").value_or(0);
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

void limit_cpus(const std::string& group, HostLimits& limits) {
  const std::optional<double> cpus = cpus_of(group);
  if (!cpus || *cpus >= limits.cpus) return;
  limits.cpus = *cpus;
  struct stat status = {};
  if (stat(group.c_str(), &status) == 0) limits.cpu_group = status.st_ino;
}

void limit_memory(const std::string& group, HostLimits& limits) {
  // Beyond memory.high a process is not killed, but hardly runs.
  for (const char* const file : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"}) {
    const std::optional<double> most = number_in(group + file);
    if (!most || *most >= double(limits.memory)) continue;
    limits.memory = int64_t(*most);
    limits.memory_group = true;
  }
}

// Linux frees them when memory is needed. Version 1 also counts those of the group alone, without "total_".
double pages_of_files(const std::string& group) {
  double bytes = 0;
  for (const std::string kind : {"inactive_file", "active_file"})
    bytes += number_in(group + "/memory.stat", "total_" + kind)
                 .value_or(number_in(group + "/memory.stat", kind).value_or(0));
  return bytes;
}

// What is left is limited by each group, not by the smallest alone: other processes may fill a large one.
void limit_memory_left(const std::string& group, HostLimits& limits) {
  HostLimits own;
  own.memory = std::numeric_limits<int64_t>::max();
  limit_memory(group, own);
  if (!own.memory_group) return;
  const double used =
      number_in(group + "/memory.current").value_or(number_in(group + "/memory.usage_in_bytes").value_or(0));
  limits.memory_left =
      std::min(limits.memory_left, std::max<int64_t>(0, own.memory - int64_t(used - pages_of_files(group))));
}

}  // namespace

int64_t bytes_in_proc(const std::string& file, const std::string& name) {
  std::ifstream figures(file);
  int64_t kibibytes = 0;
  for (std::string word; kibibytes == 0 && figures >> word;)
    if (word == name + ":") figures >> kibibytes;
  REQUIRE(kibibytes > 0, "mount /proc", file, " has no ", name);
  return 1024 * kibibytes;
}

HostLimits host_limits(const std::string& root) {
  HostLimits limits;
  limits.memory = bytes_in_proc(root + "/proc/meminfo", "MemTotal");
  limits.memory_left = bytes_in_proc(root + "/proc/meminfo", "MemAvailable");
  for (const char* const controller : {"cpu", ""})
    for (const std::string& group : groups(root, controller)) limit_cpus(group, limits);
  for (const char* const controller : {"memory", ""})
    for (const std::string& group : groups(root, controller)) {
      limit_memory(group, limits);
      limit_memory_left(group, limits);
    }
  return limits;
}

}  // namespace octet
