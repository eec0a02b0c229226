// Which peers of this process do not answer on the network, by the kernel's own account of its TCP connections.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace octet {

// The remote addresses to which the kernel has sent the same data at least twice again, without an answer. table: lines
// of /proc/net/tcp. sockets: the inodes of the connections that count.
std::vector<std::string> unanswered(const std::string& table, const std::set<std::string>& sockets);
// Those of this process, IPv4 alone. Empty where there are none, or no TCP.
std::vector<std::string> unanswered();

}  // namespace octet
