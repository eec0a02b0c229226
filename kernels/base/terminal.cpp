#include "kernels/base/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>

namespace octet {
namespace {

// Where the lines that follow a broken one begin.
size_t hanging_indent(std::string_view line, size_t columns) {
  const size_t leading = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.substr(0, std::min(columns / 2, line.size())).rfind("  ");
  if (gap == line.npos || gap + 2 <= leading) return leading > 0 && leading <= columns / 2 ? leading : 2;
  return letters_of(line.substr(0, gap + 2));
}

std::string folded_line(std::string_view line, size_t columns, size_t used) {
  if (used + letters_of(line) <= columns) return std::string(line);
  const std::string indent(hanging_indent(line, columns), ' ');
  std::string text;
  size_t filled = used;
  for (size_t at = 0; at < line.size();) {
    const size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find(' ', word), line.size());
    const size_t width = letters_of(line.substr(word, end - word));
    if (filled + (word - at) + width > columns && filled > indent.size()) {
      text += "\n" + indent;
      filled = indent.size() + width;
    } else {
      text.append(line.substr(at, word - at));
      filled += word - at + width;
    }
    text.append(line.substr(word, end - word));
    at = end;
  }
  return text;
}

std::string aligned(const std::string& text, size_t width, bool to_right) {
  const std::string space(width - std::min(width, letters_of(text)), ' ');
  return to_right ? space + text : text + space;
}

}  // namespace

size_t terminal_columns(int file_descriptor) {
  const char* columns = std::getenv("OCTET_COLUMNS");
  if (columns != nullptr && std::atoi(columns) > 0) return static_cast<size_t>(std::atoi(columns));
  const char* term = std::getenv("TERM");
  winsize size{};
  if (term == nullptr || std::string_view(term) == "dumb" || ioctl(file_descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

size_t letters_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string folded(std::string_view text, size_t columns, size_t used) {
  if (columns == 0) return std::string(text);
  std::string result;
  for (size_t at = 0; at < text.size(); used = 0) {
    const size_t end = std::min(text.find('\n', at), text.size());
    result += folded_line(text.substr(at, end - at), columns, used);
    if (end < text.size()) result += '\n';
    at = end + 1;
  }
  return result;
}

std::string table_text(std::span<const TableColumn> head, std::span<const std::vector<std::string>> rows,
                       size_t columns) {
  std::vector<size_t> widths;
  for (size_t column = 0; column < head.size(); ++column) {
    widths.push_back(letters_of(head[column].name));
    for (const auto& row : rows) widths.back() = std::max(widths.back(), letters_of(row[column]));
  }
  std::string text;
  for (size_t first = 1; first < head.size();) {
    std::vector<size_t> shown = {0};
    size_t width = widths[0];
    do {
      shown.push_back(first);
      width += 2 + widths[first++];
    } while (first < head.size() && (columns == 0 || width + 2 + widths[first] <= columns));
    const auto line = [&](const auto& cell) {
      std::string cells;
      for (const size_t column : shown)
        cells.append(column == 0 ? "" : "  ").append(aligned(cell(column), widths[column], head[column].to_right));
      cells.erase(cells.find_last_not_of(' ') + 1);
      return cells + "\n";
    };
    text.append(text.empty() ? "" : "\n").append(line([&](size_t column) { return head[column].name; }));
    for (const auto& row : rows) text += line([&](size_t column) { return row[column]; });
  }
  return text;
}

}  // namespace octet
