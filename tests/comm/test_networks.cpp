#include <gtest/gtest.h>

#include "comm/networks.h"

namespace octet::test {
namespace {

TEST(Networks, BridgesForContainersAreOfOneHost) {
  for (const char* name : {"docker0", "docker_gwbridge", "virbr0", "br-0123456789ab", "podman1", "cni0", "lxdbr0"})
    EXPECT_TRUE(of_one_host(name)) << name;
  for (const char* name : {"eth0", "br0", "br-lan", "br-storage-net", "bond0", "ib0", "enp3s0", "vmbr0", "wg0"})
    EXPECT_FALSE(of_one_host(name)) << name;
}

TEST(Networks, LeavesOneOut) {
  const std::vector<Network> all = {{"eth0", "10.0.0.7"}, {"docker0", "172.17.0.1"}, {"virbr0", "192.168.122.1"}};
  EXPECT_EQ(left_out(all), (std::vector<std::string>{"docker0", "virbr0"}));
  EXPECT_EQ(list_of(all), "eth0 10.0.0.7, docker0 172.17.0.1 (left out), virbr0 192.168.122.1 (left out)");
}

TEST(Networks, KeepsTheOnlyOnes) {
  const std::vector<Network> all = {{"docker0", "172.17.0.1"}};
  EXPECT_TRUE(left_out(all).empty());
  EXPECT_EQ(list_of(all), "docker0 172.17.0.1");
  EXPECT_TRUE(left_out({}).empty());
}

TEST(Networks, ParametersOfFiles) {
  const std::string text = "# btl_tcp_if_include = eth0\n\n  btl_tcp_if_exclude=lo\nplm = rsh\n";
  EXPECT_TRUE(sets_parameter(text, "btl_tcp_if_"));
  EXPECT_TRUE(sets_parameter(text, "plm"));
  EXPECT_FALSE(sets_parameter(text, "oob_tcp_if_"));
  EXPECT_FALSE(sets_parameter("# btl_tcp_if_include = eth0\n", "btl_tcp_if_"));
}

TEST(Networks, NamesHostsThatAreNotSeen) {
  const std::vector<Network> own = {{"eth0", "10.0.0.7"}};
  EXPECT_EQ(unseen_hosts("a.cluster b 10.0.0.7 10.0.0.8", {"a"}, own), "b 10.0.0.8");
  EXPECT_EQ(unseen_hosts("a b", {"b.cluster", "a"}, own), "");
  EXPECT_EQ(unseen_hosts("", {"a"}, own), "");
}

}  // namespace
}  // namespace octet::test
