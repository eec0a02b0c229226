#include "kernels/base/command_line.h"

#include <cctype>
#include <fstream>
#include <string_view>

#include "kernels/base/text.h"

namespace octet {

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "_@%+=:,./-";
  bool quotes = word.empty();
  for (const char c : word)
    quotes = quotes || (std::isalnum(static_cast<unsigned char>(c)) == 0 && plain.find(c) == plain.npos);
  if (!quotes) return word;
  std::string quoted(1, '\'');
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  quoted += '\'';
  return printable(quoted);
}

std::string command_line() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(stream, word, '\0');)
    line.append(line.empty() ? "" : " ").append(shell_word(word));
  return line;
}

}  // namespace octet
