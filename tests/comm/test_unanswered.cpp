#include <gtest/gtest.h>

#include "comm/unanswered.h"

namespace octet::test {
namespace {

// Lines as /proc/net/tcp has them: of the columns after the addresses count the timer, how often it expired, the inode.
const std::string columns =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n";
std::string connection(const std::string& remote, const std::string& timer, const std::string& again, int inode) {
  return "   1: 01004E0A:B1C2 " + remote + " 01 00000040:00000000 " + timer + ":00000014 " + again +
         "     0        0 " + std::to_string(inode) + " 3 0000000092e6bbba 100 0 0 10 0\n";
}

TEST(Unanswered, NamesPeersToWhichDataIsSentAgain) {
  const std::string table = columns + connection("02004E0A:1F90", "01", "00000004", 11) +
                            connection("02004E0A:1F91", "01", "00000003", 12) +
                            connection("03004E0A:1F90", "01", "00000001", 13) +  // may be one lost packet
                            connection("04004E0A:1F90", "02", "00000009", 14) +  // keepalive: nothing is to be sent
                            connection("05004E0A:1F90", "01", "00000009", 99) +  // of another process
                            connection("06004E0A:1F90", "01", "0000000A", 15);
  const std::vector<std::string> expected = {"10.78.0.2", "10.78.0.6"};
  EXPECT_EQ(unanswered(table, {"11", "12", "13", "14", "15"}), expected);
}

TEST(Unanswered, NothingWithoutConnections) {
  EXPECT_TRUE(unanswered("", {}).empty());
  EXPECT_TRUE(unanswered(columns + "torn li", {"11"}).empty());
  EXPECT_TRUE(unanswered().empty());
}

}  // namespace
}  // namespace octet::test
