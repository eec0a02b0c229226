#include "comm/unanswered.h"

#include <arpa/inet.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace octet {
namespace {

namespace fs = std::filesystem;

// "0200004E:1F90" is 78.0.0.2 where the lowest byte of a number comes first.
std::string address_of(const std::string& text) {
  const in_addr address{static_cast<in_addr_t>(std::stoul(text.substr(0, text.find(':')), nullptr, 16))};
  char name[INET_ADDRSTRLEN] = "";
  return inet_ntop(AF_INET, &address, name, sizeof name);
}

std::set<std::string> sockets_of_this_process() {
  std::set<std::string> inodes;
  const std::string prefix = "socket:[";
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", failed)) {
    const std::string target = fs::read_symlink(entry.path(), failed).string();
    if (target.starts_with(prefix)) inodes.insert(target.substr(prefix.size(), target.size() - prefix.size() - 1));
  }
  return inodes;
}

}  // namespace

std::vector<std::string> unanswered(const std::string& table, const std::set<std::string>& sockets) {
  std::vector<std::string> addresses;
  std::istringstream lines(table);
  std::string line, number, local, remote, state, queues, timer, again, user, probes, inode;
  std::getline(lines, line);  // names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    words >> number >> local >> remote >> state >> queues >> timer >> again >> user >> probes >> inode;
    if (!words || !sockets.contains(inode) || !timer.starts_with("01:") || std::stoul(again, nullptr, 16) < 2) continue;
    addresses.push_back(address_of(remote));
  }
  std::ranges::sort(addresses);
  addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
  return addresses;
}

std::vector<std::string> unanswered() {
  std::ostringstream table;
  table << std::ifstream("/proc/self/net/tcp").rdbuf();
  return unanswered(table.str(), sockets_of_this_process());
}

}  // namespace octet
