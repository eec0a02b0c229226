// What this process may use of the host's processor time and memory: the least of what the host has and of what the
// control groups around the process leave, as in a container.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

namespace octet {

struct HostLimits {
  double cpus = std::numeric_limits<double>::infinity();  // processor time of a control group, in cores; else infinite
  uint64_t cpu_group = 0;     // the number of that group's folder, equal for all processes in the group
  int64_t memory = 0;         // bytes, for all processes
  int64_t memory_left = 0;    // of them, what is free or can be freed
  bool memory_group = false;  // a control group has less memory than the host
};
// root: where the host's /proc and the mounted control groups are, as tests need it. Error: /proc is not mounted.
HostLimits host_limits(const std::string& root = "");

// A figure that Linux gives in kB, as bytes: bytes_in_proc("/proc/self/status", "VmRSS"). Error: it is not there.
int64_t bytes_in_proc(const std::string& file, const std::string& name);

}  // namespace octet
