// Tables of classes in a terminal.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace octet {

// Of more classes than `most_table_rows`, a table shows the worst and the best.
inline constexpr size_t most_table_rows = 30, worst_table_rows = 10, best_table_rows = 5;

// A name without control characters, of at most `most` characters: "..." is left of the middle of a longer one.
std::string in_table(const std::string& name, size_t most);
// The greatest width, in columns as fmt counts them.
size_t widest(const std::vector<std::string>& names);

}  // namespace octet
