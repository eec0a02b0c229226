// Sets of cores, and which of them Linux lets a thread run on. A core is what Linux calls a CPU: a hardware thread.
#pragma once
#include <bitset>
#include <string>
#include <vector>

namespace octet {

using CoreSet = std::bitset<8192>;  // by number; Linux has no more

CoreSet allowed_now();                      // of the calling thread
bool allow(const CoreSet&);                 // the calling thread, and threads that it starts; false: Linux refuses
std::string list_of(const CoreSet&);        // "0-3,8"
CoreSet cores_of(const std::string& list);  // the reverse; what is no number ends it
// The cores of each node of memory (NUMA) of this host, by number. root: where Linux describes them. Empty: it does
// not.
std::vector<CoreSet> memory_nodes(const std::string& root = "/sys/devices/system/node");

}  // namespace octet
