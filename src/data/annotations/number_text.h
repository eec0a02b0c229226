// Numbers that annotation files write as text.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace octet {

inline std::string_view without_blanks(std::string_view text) {
  constexpr const char* blank = " \t\r\n";
  const size_t first = text.find_first_not_of(blank);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blank) + 1 - first);
}

// " 1.5 " -> 1.5. Also NaN and Infinity, as Python writes them.
inline std::optional<double> number_in(std::string_view text) {
  text = without_blanks(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// "12" -> 12. Not "012", " 12" or "+12", which would be other ids than "12".
inline std::optional<int64_t> id_in(std::string_view text) {
  int64_t id = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, id).ec != std::errc() || std::to_string(id) != text) return {};
  return id;
}

}  // namespace octet
