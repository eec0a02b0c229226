#include <fmt/format.h>

#include <algorithm>

#include "src/report/charts/chart_parts.h"

namespace octet {
namespace {

// A dot, not a bar: the axis need not begin at 0.
void draw_bar(ChartDrawing& drawing, const Bar& bar, const ChartAxis& value, double y, int color,
              const std::string& reference_name) {
  if (!bar.value) {
    drawing.text(value.from + 6, y, to_right, bar.failed > 0 ? "diverged or failed" : "no result yet",
                 bar.failed > 0 ? "class=\"failed\"" : soft_text);
  } else {
    const double end = value(*bar.value), low = value(*bar.value - bar.deviation),
                 high = value(*bar.value + bar.deviation);
    drawing.line(value.from, y - 4, end, y - 4);
    drawing.svg += fmt::format("<g {}>", palette_color(color));
    drawing.dot(
        end, y - 4, 6,
        bar.name + ": " + number_text(*bar.value) + (bar.deviation > 0 ? " ± " + number_text(bar.deviation) : ""));
    drawing.svg += "</g>\n";
    drawing.line(low, y - 4, high, y - 4, "class=\"mark\"");
    drawing.text(high + 8, y, to_right,
                 number_text(*bar.value) + (bar.failed > 0 ? fmt::format("; {} failed", bar.failed) : ""), ink_text);
  }
  if (bar.reference)
    drawing.line(value(*bar.reference), y - 14, value(*bar.reference), y + 6, "class=\"mark\" stroke-width=\"2.5\"",
                 reference_name + ": " + number_text(*bar.reference));
}

}  // namespace

std::string bar_chart(const ChartOptions& options, std::span<const Bar> bars, const std::string& reference_name) {
  ChartAxis value;
  bool referenced = false;
  size_t longest = 0;
  for (const Bar& bar : bars) {
    if (bar.value) value.include(*bar.value - bar.deviation), value.include(*bar.value + bar.deviation);
    if (bar.reference) value.include(*bar.reference), referenced = true;
    longest = std::max(longest, letters_of(bar.name));
  }
  // Where the chart is too narrow for names beside the dots, they are above them.
  const double beside = 24 + letter_width * static_cast<double>(longest);
  const bool above = beside > 0.45 * options.width;
  value.from = above ? 20 : beside, value.to = options.width - 70;
  value.settle(0.08);
  const int row = above ? 44 : 26, height = chart_top + row * static_cast<int>(bars.size()) + 44;

  ChartDrawing drawing(options, height);
  for (double tick : value.ticks()) {
    drawing.line(value(tick), chart_top, value(tick), height - 44);
    drawing.text(value(tick), height - 28, centered, number_text(tick));
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double top = chart_top + row * static_cast<double>(i), y = top + row - 9;
    if (above)
      drawing.text(8, top + 13, to_right, shortened(bars[i].name, options.width - 16), ink_text);
    else
      drawing.text(value.from - 10, y, to_left, bars[i].name, ink_text);
    draw_bar(drawing, bars[i], value, y, static_cast<int>(i), reference_name);
  }
  drawing.text(options.width - 16, height - 8, to_left, options.x_label + (referenced ? ";  | " + reference_name : ""));
  return drawing.done();
}

}  // namespace octet
