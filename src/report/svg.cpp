#include "src/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace octet {
namespace {

constexpr std::array<const char*, 10> palette = {"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed",
                                                 "#0891b2", "#db2777", "#65a30d", "#475569", "#b45309"};

// Of the i-th of several; beyond the palette its lines are dashed.
std::string color_of(size_t i) { return palette[i % palette.size()]; }
std::string dashes_of(size_t i) { return i < palette.size() ? "" : " stroke-dasharray=\"6 3\""; }

// Viridis, by seven of its colors.
std::string depth_color(double share) {
  constexpr std::array<std::array<double, 3>, 7> stops = {
      {{68, 1, 84}, {70, 51, 127}, {54, 92, 141}, {39, 127, 142}, {31, 161, 135}, {110, 206, 88}, {253, 231, 37}}};
  const double at = std::clamp(share, 0.0, 1.0) * 5.7;  // the brightest yellow is hard to see on white
  const size_t low = std::min<size_t>(size_t(at), 5);
  const double part = at - double(low);
  const auto mixed = [&](size_t i) { return int(std::lround(stops[low][i] * (1 - part) + stops[low + 1][i] * part)); };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2));
}

std::string number(double value) {
  if (value == std::round(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  if (value != 0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6)) return fmt::format("{:.2g}", value);
  return fmt::format("{:.4g}", value);
}

struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool log = false;
  double from = 0, to = 1;  // pixels

  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void include(double value) {
    if (!shows(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void settle() {
    if (low > high) low = log ? 0.1 : 0, high = 1;
    if (log) {
      low = std::pow(10, std::floor(std::log10(low)));
      high = std::pow(10, std::ceil(std::log10(high)));
      if (low == high) high *= 10;
    } else if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high))) {
      low -= std::abs(low) * 0.1 + 0.1, high += std::abs(high) * 0.1 + 0.1;
    }
  }
  void pad(double share) {
    if (log) return;
    const double margin = (high - low) * share;
    low -= margin, high += margin;
  }
  double operator()(double value) const {
    const double share = log ? (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low))
                             : (value - low) / (high - low);
    return from + share * (to - from);
  }
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (log) {
      const double decades = std::log10(high / low), every = std::max(1.0, std::ceil(decades / 6));
      for (double exponent = std::ceil(std::log10(low)); exponent <= std::log10(high) + 1e-9; exponent += every)
        ticks.push_back(std::pow(10, exponent));
      return ticks;
    }
    const double rough = (high - low) / 5, unit = std::pow(10, std::floor(std::log10(rough)));
    const double step = unit * (rough / unit > 5 ? 10 : rough / unit > 2 ? 5 : rough / unit > 1 ? 2 : 1);
    const double first = std::ceil(low / step);
    for (int i = 0; i < 12 && (first + i) * step <= high + step * 1e-9; ++i)
      ticks.push_back((first + i) * step + 0.0);  // no -0
    return ticks;
  }
};

constexpr int left = 66, right = 16, top = 40, bottom = 46;

std::string opened(const ChartOptions& options, int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "font-family=\"system-ui, -apple-system, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n"
      "<style>.ink{{fill:var(--ink,#1e293b)}}.soft{{fill:var(--soft,#64748b)}}.grid{{stroke:var(--grid,#e2e8f0)}}"
      ".line{{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}}.line:hover{{stroke-width:4}}</"
      "style>\n"
      "<text class=\"ink\" x=\"{2}\" y=\"22\" font-size=\"15\" font-weight=\"600\">{3}</text>\n",
      options.width, height, left, escaped(options.title));
}

std::string axes(const ChartOptions& options, const Axis& x, const Axis& y, bool x_ticks) {
  std::string svg;
  for (double tick : y.ticks())
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x.from, x.to, y(tick), y(tick), x.from - 8, y(tick) + 4, number(tick));
  if (x_ticks)
    for (double tick : x.ticks())
      svg += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x(tick),
                         y.from + 18, number(tick));
  svg += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", x.to,
                     y.from + 36, escaped(options.x_label));
  svg += fmt::format(
      "<text class=\"soft\" x=\"16\" y=\"{:.1f}\" transform=\"rotate(-90 16 {:.1f})\" "
      "text-anchor=\"middle\">{}</text>\n",
      (y.from + y.to) / 2, (y.from + y.to) / 2, escaped(options.y_label));
  return svg;
}

std::string path_of(const Series& series, const Axis& x, const Axis& y) {
  std::string path;
  bool drawing = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = y.shows(series.y[i]);
    if (shown) path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x(series.x[i]), y(series.y[i]));
    const bool goes_on = i + 1 < series.x.size() && y.shows(series.y[i + 1]);
    if (shown && !drawing && !goes_on) path += "h0";  // a dot
    drawing = shown;
  }
  return path;
}

std::string band_of(const Series& series, const Axis& x, const Axis& y, const std::string& color) {
  if (series.deviation.empty()) return {};
  std::string points;
  const auto add = [&](size_t i, double sign) {
    const double value = series.y[i] + sign * series.deviation[i];
    if (y.shows(value)) points += fmt::format("{:.1f},{:.1f} ", x(series.x[i]), y(value));
  };
  for (size_t i = 0; i < series.x.size(); ++i) add(i, 1);
  for (size_t i = series.x.size(); i-- > 0;) add(i, -1);
  return fmt::format("<polygon points=\"{}\" fill=\"{}\" opacity=\"0.15\"/>\n", points, color);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string line_chart(const ChartOptions& options, std::span<const Series> series) {
  Axis x, y;
  y.log = options.log_y;
  for (const Series& one : series) {
    for (double value : one.x) x.include(value);
    for (size_t i = 0; i < one.y.size(); ++i) {
      const double deviation = one.deviation.empty() ? 0 : one.deviation[i];
      y.include(one.y[i] - deviation), y.include(one.y[i] + deviation);
    }
  }
  const auto drawn = std::count_if(series.begin(), series.end(), [](const Series& one) { return !one.x.empty(); });
  const int legend_rows = options.by_depth ? 0 : int(drawn + 2) / 3;
  const int height = options.height + 18 * legend_rows;
  x.from = left, x.to = options.width - right;
  y.from = options.height - bottom, y.to = top;
  x.settle(), y.settle(), y.pad(0.04);

  std::string svg = opened(options, height) + axes(options, x, y, true);
  int named = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string color =
        options.by_depth ? depth_color(double(i) / double(std::max<size_t>(series.size() - 1, 1))) : color_of(i);
    if (series[i].x.empty()) continue;
    svg += band_of(series[i], x, y, color);
    const std::string last = series[i].y.empty() ? "" : ": " + number(series[i].y.back()) + " at last";
    svg += fmt::format("<path class=\"line\" d=\"{}\" stroke=\"{}\"{}><title>{}{}</title></path>\n",
                       path_of(series[i], x, y), color, options.by_depth ? " opacity=\"0.75\"" : dashes_of(i),
                       escaped(series[i].name), last);
    if (options.by_depth) continue;
    const double place = left + double(named % 3) * (options.width - left - right) / 3.0;
    const double row = options.height + 18.0 * double(named++ / 3);
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"4\"{}/>"
        "<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        place, place + 14, row - 3, row - 3, color, dashes_of(i), place + 20, row, escaped(series[i].name));
  }
  return svg + "</svg>\n";
}

std::string bar_chart(const ChartOptions& options, std::span<const Bar> bars, const std::string& reference_name) {
  Axis value;
  bool referenced = false;
  for (const Bar& bar : bars) {
    if (bar.value) value.include(*bar.value - bar.deviation), value.include(*bar.value + bar.deviation);
    if (bar.reference) value.include(*bar.reference), referenced = true;
  }
  size_t longest = 0;
  for (const Bar& bar : bars) longest = std::max(longest, bar.name.size());
  const double label = std::min(330.0, 24 + 6.8 * double(longest));
  value.from = label, value.to = options.width - 70;
  value.settle();
  value.pad(0.08);
  const int row = 26, height = top + row * int(bars.size()) + 44;

  std::string svg = opened(options, height);
  for (double tick : value.ticks())
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text class=\"soft\" x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        value(tick), top, height - 44, height - 28, number(tick));
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = top + row * double(i) + 5;
    svg += fmt::format("<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", label - 10,
                       y + 12, escaped(bar.name));
    if (!bar.value) {
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}</text>\n", label + 6, y + 12,
                         bar.failed > 0 ? "fill=\"#dc2626\">diverged or failed" : "class=\"soft\">no result yet");
    } else {
      // A dot, not a bar: the axis need not begin at 0.
      const double end = value(*bar.value);
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
          "<circle cx=\"{1:.1f}\" cy=\"{2:.1f}\" r=\"6\" fill=\"{3}\"><title>{4}: {5}{6}</title></circle>\n",
          label, end, y + 8, color_of(i), escaped(bar.name), number(*bar.value),
          bar.deviation > 0 ? " +- " + number(bar.deviation) : "");
      if (bar.deviation > 0)
        svg += fmt::format(
            "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--ink,#1e293b)\"/>\n",
            value(*bar.value - bar.deviation), value(*bar.value + bar.deviation), y + 8, y + 8);
      svg += fmt::format("<text class=\"ink\" x=\"{:.1f}\" y=\"{:.1f}\">{}{}</text>\n",
                         std::max(end, value(*bar.value + bar.deviation)) + 8, y + 12, number(*bar.value),
                         bar.failed > 0 ? fmt::format("; {} failed", bar.failed) : "");
    }
    if (bar.reference)
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"var(--ink,#1e293b)\" "
          "stroke-width=\"2.5\"><title>{3}: {4}</title></line>\n",
          value(*bar.reference), y - 2, y + 18, escaped(reference_name), number(*bar.reference));
  }
  svg += fmt::format("<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}{}</text>\n", options.width - 70,
                     height - 8, escaped(options.x_label), referenced ? ";  | " + escaped(reference_name) : "");
  return svg + "</svg>\n";
}

std::string heat_map(const ChartOptions& options, std::span<const Series> rows) {
  Axis color;
  color.log = options.log_y;
  size_t longest = 0;
  for (const Series& row : rows) {
    for (double value : row.y) color.include(value);
    longest = std::max(longest, row.name.size());
  }
  const double lowest = color.low, highest = color.high;
  color.settle();
  if (lowest < highest) color.low = lowest, color.high = highest;  // colors need no round ends
  color.from = 0, color.to = 1;
  const int row_height = rows.size() > 40 ? 9 : 14, height = top + row_height * int(rows.size()) + 62;
  const double end = options.width - right,
               label = std::min(280.0, 24 + (rows.size() > 40 ? 4.4 : 6.6) * double(longest));

  std::string svg = opened(options, height);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = top + row_height * double(i);
    svg +=
        fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"{}\">{}</text>\n",
                    label - 6, y + row_height - 2.5, row_height - 2, escaped(rows[i].name));
    // Updates come after steps 1, 2, 3, 5, 9 ... and then every period: one cell for each, of one width; of many, some.
    const size_t updates = rows[i].x.size(), cells = std::min<size_t>(updates, 400);
    const double width = (end - label) / double(std::max<size_t>(cells, 1));
    for (size_t at = 0; at < cells; ++at)
      if (const size_t k = at * updates / cells; color.shows(rows[i].y[k]))
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"><title>{}, step {}: {}"
            "</title></rect>\n",
            label + width * double(at), y, width + 0.3, row_height - 1, depth_color(color(rows[i].y[k])),
            escaped(rows[i].name), rows[i].x[k], number(rows[i].y[k]));
  }
  const double base = top + row_height * double(rows.size()) + 18;
  if (!rows.empty() && !rows[0].x.empty())
    svg += fmt::format(
        "<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\">step {}</text><text class=\"soft\" x=\"{:.1f}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        label, base, number(rows[0].x.front()), end, base, number(rows[0].x.back()));
  for (int i = 0; i < 40; ++i)
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"5.2\" height=\"10\" fill=\"{}\"/>\n", label + 5.0 * i,
                       base + 12, depth_color(i / 39.0));
  svg += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\">{} to {} {}</text>\n", label + 210, base + 21,
                     number(color.low), number(color.high), escaped(options.y_label));
  return svg + "</svg>\n";
}

}  // namespace octet
