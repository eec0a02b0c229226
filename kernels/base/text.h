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

}  // namespace octet
