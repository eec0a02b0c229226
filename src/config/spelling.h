// Which known word a misspelt one stands for.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace octet {

// The least number of characters to insert, delete or replace (Levenshtein).
size_t edit_distance(std::string_view, std::string_view);
// The word with the least distance to `text`; empty: none is near, which is at most half of its characters.
std::string nearest_word(std::string_view text, std::span<const std::string> words);

}  // namespace octet
