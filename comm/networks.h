// The networks of this host, and which of them cannot join it to other hosts.
#pragma once
#include <string>
#include <vector>

namespace octet {

struct Network {
  std::string interface, address;  // "eth0", "10.0.0.7"
};

// Those that are up, IPv4 alone, without loopback.
std::vector<Network> networks();

// Whether an interface is, by its name, a bridge for the containers or virtual machines of one host. Such a bridge
// often has the same address on every host, and a rank that connects to this address reaches its own host.
bool of_one_host(const std::string& interface);

// The interfaces of `all` that are of one host, unless no other network would be left.
std::vector<std::string> left_out(const std::vector<Network>& all);

// Whether the text of a file of Open MPI's parameters sets a parameter whose name begins so.
bool sets_parameter(const std::string& text, const std::string& prefix);

// "eth0 10.0.0.7, docker0 172.17.0.1 (left out)"; empty without networks.
std::string list_of(const std::vector<Network>&);

// Those of `hosts`, names separated by spaces, that are not among `seen`. A name counts up to its first dot, and an
// address of `own` is seen.
std::string unseen_hosts(const std::string& hosts, const std::vector<std::string>& seen,
                         const std::vector<Network>& own);

}  // namespace octet
