// The terminal that shows what octet prints, and text that fits into its columns.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// The columns of the terminal behind standard output or standard error; 0: it is no terminal, and lines may be long.
// Open MPI gives each rank a terminal. Its width is 0 if mpirun's own output is a file or on another host, so
// OCTET_COLUMNS passes on the width of the user's terminal.
size_t terminal_columns(int file_descriptor);

size_t letters_of(std::string_view text);  // of UTF-8

// Breaks lines between words so that none is longer than `columns`; 0: as they are. Later lines of a broken one begin
// below its last column of text, as in a list of options, or with two spaces more. A longer word stays whole. used: the
// columns that stand before the text already.
std::string folded(std::string_view text, size_t columns, size_t used = 0);

struct TableColumn {
  std::string name;
  bool to_right = false;  // as numbers are
};
// A line of names and a line for each row. Where a line would be longer than `columns`, the last columns of the table
// come in a table of their own below, behind the first column again. 0: any length.
std::string table_text(std::span<const TableColumn>, std::span<const std::vector<std::string>> rows, size_t columns);

}  // namespace octet
