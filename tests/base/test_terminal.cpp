// Text that fits into the columns of a terminal, and words for a shell.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "kernels/base/command_line.h"
#include "kernels/base/terminal.h"

namespace octet {
namespace {

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Terminal, LinesThatFitAndThoseOfFilesStay) {
  const std::string text = "a  b\n\n   c d\n";
  EXPECT_EQ(folded(text, 8), text);
  EXPECT_EQ(folded("a very long line", 0), "a very long line");
}

TEST(Terminal, LinesAreBrokenBetweenWords) {
  EXPECT_EQ(folded("one two three four\nx", 10), "one two\n  three\n  four\nx");
  EXPECT_EQ(folded("  one two three", 10), "  one two\n  three");
  EXPECT_EQ(folded("a/path/that/is/longer than", 10), "a/path/that/is/longer\n  than");
  EXPECT_EQ(folded("ééé ééé", 7), "ééé ééé") << "letters count, not bytes";
  EXPECT_EQ(folded("one two", 10, 6), "one\n  two") << "6 columns are taken";
}

TEST(Terminal, DescriptionsStayInTheirColumn) {
  EXPECT_EQ(folded("  --set TEXT  one two three four", 30),
            "  --set TEXT  one two three\n" + std::string(14, ' ') + "four");
  EXPECT_EQ(folded(std::string(10, ' ') + "one two three", 20), "          one two\n          three");
}

TEST(Terminal, TablesContinueBelow) {
  const TableColumn head[] = {{"node"}, {"bytes", true}, {"kind"}};
  const std::vector<std::string> rows[] = {{"conv1", "12", "convolution"}, {"fc", "3456", "linear"}};
  EXPECT_EQ(table_text(head, rows, 0), "node   bytes  kind\nconv1     12  convolution\nfc      3456  linear\n");
  EXPECT_EQ(table_text(head, rows, 18),
            "node   bytes\nconv1     12\nfc      3456\n\nnode   kind\nconv1  convolution\nfc     linear\n");
  for (const std::string& line : lines_in(table_text(head, rows, 18))) EXPECT_LE(line.size(), 18u);
}

TEST(CommandLine, WordsAreQuotedWhereAShellWouldChangeThem) {
  EXPECT_EQ(shell_word("configs/a-b_c.yaml"), "configs/a-b_c.yaml");
  EXPECT_EQ(shell_word("my runs"), "'my runs'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a\nb"), "'a\\x0ab'");
  EXPECT_NE(command_line().find("test_base"), std::string::npos);
}

}  // namespace
}  // namespace octet
