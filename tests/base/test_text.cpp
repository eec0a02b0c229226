#include <gtest/gtest.h>

#include "kernels/base/text.h"

namespace octet::test {
namespace {

TEST(Text, ControlCharactersAreShown) {
  EXPECT_EQ(printable("caf\xc3\xa9 \xe7\xb6\xb2.jpg"), "caf\xc3\xa9 \xe7\xb6\xb2.jpg");
  EXPECT_EQ(printable("\x1b[2J\r\t\x7f"), "\\x1b[2J\\x0d\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb"), "a\\x0ab");
}

TEST(Text, NoNameBeginsALine) {
  EXPECT_EQ(printable("what\n  fix: how\n", true), "what\n  fix: how\n");
  EXPECT_EQ(printable("a\nwatchdog: b", true), "a\\x0awatchdog: b");
}

}  // namespace
}  // namespace octet::test
