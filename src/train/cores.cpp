#include "src/train/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

namespace octet {
namespace {

using LinuxSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;
const size_t set_bytes = CPU_ALLOC_SIZE(CoreSet().size());

LinuxSet empty_set() {
  LinuxSet set(CPU_ALLOC(CoreSet().size()), [](cpu_set_t* of) { CPU_FREE(of); });
  CPU_ZERO_S(set_bytes, set.get());
  return set;
}

}  // namespace

CoreSet allowed_now() {
  const LinuxSet set = empty_set();
  CoreSet cores;
  if (sched_getaffinity(0, set_bytes, set.get()) == 0)
    for (size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET_S(core, set_bytes, set.get());
  return cores;
}

bool allow(const CoreSet& cores) {
  const LinuxSet set = empty_set();
  for (size_t core = 0; core < cores.size(); ++core)
    if (cores[core]) CPU_SET_S(core, set_bytes, set.get());
  return sched_setaffinity(0, set_bytes, set.get()) == 0;
}

std::string list_of(const CoreSet& cores) {
  std::string text;
  for (size_t first = 0; first < cores.size(); ++first) {
    if (!cores[first]) continue;
    size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1]) ++last;
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", first, last > first ? fmt::format("-{}", last) : "");
    first = last;
  }
  return text;
}

CoreSet cores_of(const std::string& list) {
  CoreSet cores;
  const char *at = list.data(), *const end = at + list.size();
  size_t first = 0;
  while (std::from_chars(at, end, first).ec == std::errc()) {
    at = std::from_chars(at, end, first).ptr;
    size_t last = first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (size_t core = first; core <= std::min(last, cores.size() - 1); ++core) cores.set(core);
    if (at < end && *at == ',') ++at;
  }
  return cores;
}

std::vector<CoreSet> memory_nodes(const std::string& root) {
  std::vector<CoreSet> nodes;
  for (size_t node = 0;; ++node) {
    std::ifstream file(std::filesystem::path(root) / fmt::format("node{}", node) / "cpulist");
    std::string list;
    if (!std::getline(file, list)) return nodes;
    nodes.push_back(cores_of(list));
  }
}

}  // namespace octet
