#include "src/config/spelling.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace octet {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_word(std::string_view text, std::span<const std::string> words) {
  text = text.substr(0, 64);
  const auto distance = [&](const std::string& word) { return edit_distance(text, word); };
  const auto nearest = std::ranges::min_element(words, {}, distance);
  const bool near = nearest != words.end() && distance(*nearest) <= std::max<size_t>(1, text.size() / 2);
  return near ? *nearest : "";
}

}  // namespace octet
