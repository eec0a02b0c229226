#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "src/report/charts/chart_parts.h"

namespace octet {
namespace {

constexpr size_t named_rows = 40;  // at most; of more, each block has a name
constexpr size_t most_cells = 400;

// The first `parts` parts of a layer's name: "layer1.0" of "layer1.0.conv1".
std::string block_of(const std::string& name, int parts) {
  size_t end = 0;
  for (int part = 0; part < parts && end != std::string::npos; ++part) end = name.find('.', part == 0 ? 0 : end + 1);
  return name.substr(0, end);
}

// The name of each row's block: the shortest names that give eight blocks or more.
std::vector<std::string> blocks_of(std::span<const Series> rows) {
  constexpr size_t enough = 8;
  constexpr int deepest = 3;
  std::vector<std::string> blocks;
  for (int parts = 1; parts <= deepest; ++parts) {
    blocks.clear();
    for (const Series& row : rows) blocks.push_back(block_of(row.name, parts));
    if (std::set<std::string>(blocks.begin(), blocks.end()).size() >= enough) break;
  }
  return blocks;
}

// Updates come after steps 1, 2, 3, 5, 9 ... and then every period. Each has a cell of the same width; of very many
// updates some have one.
void draw_row(ChartDrawing& drawing, const Series& row, const ChartAxis& color, double left, double right, double y,
              double height) {
  const size_t updates = row.x.size(), cells = std::min(updates, most_cells);
  const double width = (right - left) / static_cast<double>(std::max<size_t>(cells, 1));
  for (size_t at = 0; at < cells; ++at)
    if (const size_t k = at * updates / cells; color.shows(row.y[k]))
      drawing.cell(left + width * static_cast<double>(at), y, width + 0.3, height, color(row.y[k]),
                   fmt::format("{}, step {}: {}", row.name, row.x[k], number_text(row.y[k])));
}

}  // namespace

std::string heat_map(const ChartOptions& options, std::span<const Series> rows) {
  ChartAxis color;
  color.log = options.log_y;
  for (const Series& row : rows)
    for (double value : row.y) color.include(value);
  const double lowest = color.low, highest = color.high;
  color.settle();
  if (lowest < highest) color.low = lowest, color.high = highest;  // colors need no round ends
  const bool grouped = rows.size() > named_rows;
  std::vector<std::string> names;
  if (grouped)
    names = blocks_of(rows);
  else
    for (const Series& row : rows) names.push_back(row.name);
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, letters_of(name));
  const double end = options.width - chart_right;
  const double label = std::min(0.42 * options.width, 14 + letter_width * static_cast<double>(longest));
  const double row_height = grouped ? 9 : 16, gap = grouped ? 6 : 0;

  std::vector<size_t> starts;  // of groups of rows with one name
  for (size_t i = 0; i < rows.size(); ++i)
    if (!grouped || i == 0 || names[i] != names[i - 1]) starts.push_back(i);
  const auto height =
      chart_top + row_height * static_cast<double>(rows.size()) + gap * static_cast<double>(starts.size()) + 62;

  ChartDrawing drawing(options, static_cast<int>(height));
  double y = chart_top;
  for (size_t group = 0; group < starts.size(); ++group, y += gap) {
    const size_t first = starts[group], last = group + 1 < starts.size() ? starts[group + 1] : rows.size();
    drawing.text(label - 6, y + row_height * static_cast<double>(last - first) / 2 + 4, to_left,
                 shortened(names[first], label - 10));
    for (size_t i = first; i < last; ++i, y += row_height)
      draw_row(drawing, rows[i], color, label, end, y, row_height - 1);
  }
  const double base = y + 18;
  if (!rows.empty() && !rows[0].x.empty()) {
    drawing.text(label, base, to_right, "step " + number_text(rows[0].x.front()));
    drawing.text(end, base, to_left, number_text(rows[0].x.back()));
  }
  for (int i = 0; i < 40; ++i) drawing.cell(8 + 3.0 * i, base + 12, 3.2, 10, i / 39.0);
  drawing.text(136, base + 21, to_right,
               fmt::format("{} to {} {}", number_text(color.low), number_text(color.high), options.y_label));
  return drawing.done();
}

}  // namespace octet
