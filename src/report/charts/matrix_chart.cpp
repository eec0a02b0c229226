#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/report/charts/chart_parts.h"

namespace octet {
namespace {

constexpr double least_for_text = 13, least_for_numbers = 26;  // sides of a cell, in pixels
// Opacities of a cell. Text on it keeps a contrast of 4.5, with the colors of the light page and of the dark one.
constexpr double least_opacity = 0.08, most_opacity = 0.65;

}  // namespace

std::string matrix_chart(const ChartOptions& options, std::span<const std::string> names,
                         std::span<const int64_t> counts) {
  const size_t classes = names.size();
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, letters_of(name));
  const double label = std::min(0.3 * options.width, 20 + letter_width * static_cast<double>(longest));
  const double side = (options.width - label - chart_right) / static_cast<double>(std::max<size_t>(classes, 1));
  const double left = label, top = chart_top + 14, bottom = top + side * static_cast<double>(classes);
  const bool texts = side >= least_for_text;
  const double below = texts ? label : 24;
  ChartDrawing drawing(options, static_cast<int>(bottom + below));
  drawing.text(8, chart_top + 4, to_right, "rows: the label; columns: the network's answer");
  for (size_t row = 0; row < classes; ++row) {
    const auto of_row = counts.subspan(row * classes, classes);
    const auto total = static_cast<double>(std::accumulate(of_row.begin(), of_row.end(), int64_t{0}));
    const double y = top + side * static_cast<double>(row), x_middle = left + side * (static_cast<double>(row) + 0.5);
    if (texts) {
      const std::string name = shortened(names[row], label - 10);
      drawing.text(left - 6, y + side / 2 + 4, to_left, name);
      drawing.text(x_middle, bottom + 12, to_left, name,
                   fmt::format("{} transform=\"rotate(-50 {:.1f} {:.1f})\"", soft_text, x_middle, bottom + 12));
    }
    for (size_t column = 0; column < classes; ++column) {
      const int64_t count = of_row[column];
      if (count == 0) continue;
      const double share = static_cast<double>(count) / total, x = left + side * static_cast<double>(column);
      // A square root, so that rare mistakes can be seen.
      drawing.svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\" class=\"{}\" "
          "fill-opacity=\"{:.2f}\">{}</rect>\n",
          x + 0.5, y + 0.5, std::max(side - 1, 1.0), std::max(side - 1, 1.0), texts ? 2 : 0,
          row == column ? "hit" : "miss", least_opacity + (most_opacity - least_opacity) * std::sqrt(share),
          tooltip(fmt::format("{} taken for {}: {} of {}", names[row], names[column], count, total)));
      if (side >= least_for_numbers)
        drawing.text(x + side / 2, y + side / 2 + 4, centered, std::to_string(count),
                     count < 1000 ? ink_text : "class=\"ink\" font-size=\"10\"");
    }
  }
  return drawing.done();
}

}  // namespace octet
