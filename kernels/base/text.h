// Text made of parts.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

template <class... Parts>
std::string say(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

// "a, b" for the words a and b and between ", ".
inline std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

// A name or a message for a terminal, on which control characters would be commands: they come as \x1b. lines: a line
// break stays where the next line is indented, as in octet's own messages; no name can begin a line then.
std::string printable(std::string_view text, bool lines = false);

}  // namespace octet
