#include "src/tasks/table_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/text.h"

namespace octet {
namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }  // of UTF-8

size_t characters_in(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

// Where character `index` begins.
size_t place_of(const std::string& text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (begins_character(text[at]) && index-- == 0) break;
  return at;
}

}  // namespace

std::string in_table(const std::string& name, size_t most) {
  std::string text = printable(name);
  const size_t length = characters_in(text);
  if (length <= most) return text;
  const size_t first = (most - 3) / 2, last = most - 3 - first;
  return text.substr(0, place_of(text, first)) + "..." + text.substr(place_of(text, length - last));
}

size_t widest(const std::vector<std::string>& names) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, characters_in(name));
  return width;
}

}  // namespace octet
