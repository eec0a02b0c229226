#include "comm/networks.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "kernels/base/error.h"

namespace octet {

std::vector<Network> networks() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Network> found;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char address[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, address, sizeof address);
    found.push_back({at->ifa_name, address});
  }
  return found;
}

bool of_one_host(const std::string& interface) {
  // Docker, its networks (br- and 12 hexadecimal digits), libvirt, LXC, LXD, Incus, Podman, Kubernetes' plug-ins,
  // VMware, VirtualBox.
  for (const char* const prefix :
       {"docker", "virbr", "lxcbr", "lxdbr", "incusbr", "podman", "cni", "nerdctl", "vmnet", "vboxnet"})
    if (interface.starts_with(prefix)) return true;
  return interface.starts_with("br-") && interface.size() == 15 &&
         interface.find_first_not_of("0123456789abcdef", 3) == std::string::npos;
}

std::vector<std::string> left_out(const std::vector<Network>& all) {
  std::vector<std::string> names;
  for (const Network& network : all)
    if (of_one_host(network.interface)) names.push_back(network.interface);
  if (names.size() == all.size()) return {};
  return names;
}

bool sets_parameter(const std::string& text, const std::string& prefix) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line.compare(begin, prefix.size(), prefix) == 0) return true;
  }
  return false;
}

std::string list_of(const std::vector<Network>& all) {
  const std::vector<std::string> out = left_out(all);
  std::string text;
  for (const auto& [interface, address] : all)
    text += say(text.empty() ? "" : ", ", interface, " ", address,
                std::ranges::find(out, interface) != out.end() ? " (left out)" : "");
  return text;
}

std::string unseen_hosts(const std::string& hosts, const std::vector<std::string>& seen,
                         const std::vector<Network>& own) {
  const auto short_name = [](const std::string& name) { return name.substr(0, name.find('.')); };
  std::istringstream words(hosts);
  std::string text;
  for (std::string host; words >> host;) {
    const bool is_seen =
        std::ranges::any_of(seen, [&](const std::string& s) { return short_name(s) == short_name(host); });
    const bool is_own = std::ranges::any_of(own, [&](const Network& network) { return network.address == host; });
    if (!is_seen && !is_own) text += say(text.empty() ? "" : " ", host);
  }
  return text;
}

}  // namespace octet
