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

std::string color_of(size_t series) { return palette[series % palette.size()]; }
std::string dashes_of(size_t series) { return series < palette.size() ? "" : " stroke-dasharray=\"6 3\""; }

// The color scale viridis, from seven of its colors. share: 0 (dark) to 1 (bright).
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
  double from = 0, to = 1;  // the same range in pixels

  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  void include(double value) {
    if (!shows(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Makes the range of the included values one that can be drawn.
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
    const double margin = log ? 0 : (high - low) * share;
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

constexpr int left = 66, right = 16, top = 40, bottom = 46;  // margins in pixels
constexpr const char *soft = "class=\"soft\"", *ink = "class=\"ink\"", *grid = "class=\"grid\"";
constexpr const char *to_right = "start", *centered = "middle", *to_left = "end";  // of the point of a text

// Shown where the pointer is over a mark.
std::string tooltip(const std::string& text) { return text.empty() ? "" : "<title>" + escaped(text) + "</title>"; }

struct Drawing {
  std::string svg;

  Drawing(const ChartOptions& options, int height) {
    svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
        "font-family=\"system-ui, -apple-system, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n"
        "<style>.ink{{fill:var(--ink,#1e293b)}}.soft{{fill:var(--soft,#64748b)}}.grid{{stroke:var(--grid,#e2e8f0)}}"
        ".mark{{stroke:var(--ink,#1e293b)}}.line{{fill:none;stroke-width:1.8;stroke-linejoin:round;"
        "stroke-linecap:round}}.line:hover{{stroke-width:4}}</style>\n"
        "<text class=\"ink\" x=\"{2}\" y=\"22\" font-size=\"15\" font-weight=\"600\">{3}</text>\n",
        options.width, height, left, escaped(options.title));
  }
  void text(double x, double y, const char* anchor, const std::string& text, const std::string& style = soft) {
    svg += fmt::format("<text {} x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style, x, y, anchor,
                       escaped(text));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& style = grid, const std::string& tip = "") {
    svg += fmt::format("<line {} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\">{}</line>\n", style, x1, y1,
                       x2, y2, tooltip(tip));
  }
  void cell(double x, double y, double width, double height, double depth, const std::string& tip = "") {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">{}</rect>\n", x, y,
                       width, height, depth_color(depth), tooltip(tip));
  }
  std::string done() const { return svg + "</svg>\n"; }
};

void draw_axes(Drawing& drawing, const ChartOptions& options, const Axis& x, const Axis& y) {
  for (double tick : y.ticks()) {
    drawing.line(x.from, y(tick), x.to, y(tick));
    drawing.text(x.from - 8, y(tick) + 4, to_left, number(tick));
  }
  for (double tick : x.ticks()) drawing.text(x(tick), y.from + 18, centered, number(tick));
  drawing.text(x.to, y.from + 36, to_left, options.x_label);
  const double middle = (y.from + y.to) / 2;
  drawing.text(16, middle, centered, options.y_label,
               fmt::format("{} transform=\"rotate(-90 16 {:.1f})\"", soft, middle));
}

std::string path_of(const Series& series, const Axis& x, const Axis& y) {
  std::string path;
  bool drawing = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = y.shows(series.y[i]);
    if (shown) path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x(series.x[i]), y(series.y[i]));
    const bool continues = i + 1 < series.x.size() && y.shows(series.y[i + 1]);
    if (shown && !drawing && !continues) path += "h0";  // a dot
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

// A dot, not a bar: the axis need not begin at 0.
void draw_bar(Drawing& drawing, const Bar& bar, const Axis& value, double y, const std::string& color,
              const std::string& reference_name) {
  if (!bar.value) {
    drawing.text(value.from + 6, y, to_right, bar.failed > 0 ? "diverged or failed" : "no result yet",
                 bar.failed > 0 ? "fill=\"#dc2626\"" : soft);
  } else {
    const double end = value(*bar.value), low = value(*bar.value - bar.deviation),
                 high = value(*bar.value + bar.deviation);
    drawing.line(value.from, y - 4, end, y - 4);
    drawing.svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"{}\">{}</circle>\n", end, y - 4, color,
        tooltip(bar.name + ": " + number(*bar.value) + (bar.deviation > 0 ? " +- " + number(bar.deviation) : "")));
    drawing.line(low, y - 4, high, y - 4, "class=\"mark\"");
    drawing.text(high + 8, y, to_right,
                 number(*bar.value) + (bar.failed > 0 ? fmt::format("; {} failed", bar.failed) : ""), ink);
  }
  if (bar.reference)
    drawing.line(value(*bar.reference), y - 14, value(*bar.reference), y + 6, "class=\"mark\" stroke-width=\"2.5\"",
                 reference_name + ": " + number(*bar.reference));
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
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
  x.from = left, x.to = options.width - right;
  y.from = options.height - bottom, y.to = top;
  x.settle(), y.settle(), y.pad(0.04);

  Drawing drawing(options, options.height + 18 * legend_rows);
  draw_axes(drawing, options, x, y);
  int named = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const std::string color =
        options.by_depth ? depth_color(double(i) / double(std::max<size_t>(series.size() - 1, 1))) : color_of(i);
    if (series[i].x.empty()) continue;
    const std::string last = series[i].y.empty() ? "" : ": " + number(series[i].y.back()) + " at last";
    drawing.svg += band_of(series[i], x, y, color);
    drawing.svg +=
        fmt::format("<path class=\"line\" d=\"{}\" stroke=\"{}\"{}>{}</path>\n", path_of(series[i], x, y), color,
                    options.by_depth ? " opacity=\"0.75\"" : dashes_of(i), tooltip(series[i].name + last));
    if (options.by_depth) continue;
    const auto line = named / 3, column = named % 3;
    ++named;
    const double place = left + double(column) * (options.width - left - right) / 3.0;
    const double row = options.height + 18.0 * double(line);
    drawing.line(place, row - 3, place + 14, row - 3,
                 fmt::format("stroke=\"{}\" stroke-width=\"4\"{}", color, dashes_of(i)));
    drawing.text(place + 20, row, to_right, series[i].name, ink);
  }
  return drawing.done();
}

std::string bar_chart(const ChartOptions& options, std::span<const Bar> bars, const std::string& reference_name) {
  Axis value;
  bool referenced = false;
  size_t longest = 0;
  for (const Bar& bar : bars) {
    if (bar.value) value.include(*bar.value - bar.deviation), value.include(*bar.value + bar.deviation);
    if (bar.reference) value.include(*bar.reference), referenced = true;
    longest = std::max(longest, bar.name.size());
  }
  value.from = std::min(330.0, 24 + 6.8 * double(longest)), value.to = options.width - 70;
  value.settle(), value.pad(0.08);
  const int row = 26, height = top + row * int(bars.size()) + 44;

  Drawing drawing(options, height);
  for (double tick : value.ticks()) {
    drawing.line(value(tick), top, value(tick), height - 44);
    drawing.text(value(tick), height - 28, centered, number(tick));
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = top + row * double(i) + 17;
    drawing.text(value.from - 10, y, to_left, bars[i].name, ink);
    draw_bar(drawing, bars[i], value, y, color_of(i), reference_name);
  }
  drawing.text(options.width - 70, height - 8, to_left, options.x_label + (referenced ? ";  | " + reference_name : ""));
  return drawing.done();
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
  const bool many = rows.size() > 40;
  const int row_height = many ? 9 : 14, height = top + row_height * int(rows.size()) + 62;
  const double end = options.width - right, label = std::min(280.0, 24 + (many ? 4.4 : 6.6) * double(longest));

  Drawing drawing(options, height);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = top + row_height * double(i);
    drawing.text(label - 6, y + row_height - 2.5, to_left, rows[i].name,
                 fmt::format("{} font-size=\"{}\"", soft, row_height - 2));
    // Updates come after steps 1, 2, 3, 5, 9 ... and then every period. Each has a cell of the same width; of very many
    // updates some have one.
    const size_t updates = rows[i].x.size(), cells = std::min<size_t>(updates, 400);
    const double width = (end - label) / double(std::max<size_t>(cells, 1));
    for (size_t at = 0; at < cells; ++at)
      if (const size_t k = at * updates / cells; color.shows(rows[i].y[k]))
        drawing.cell(label + width * double(at), y, width + 0.3, row_height - 1, color(rows[i].y[k]),
                     fmt::format("{}, step {}: {}", rows[i].name, rows[i].x[k], number(rows[i].y[k])));
  }
  const double base = top + row_height * double(rows.size()) + 18;
  if (!rows.empty() && !rows[0].x.empty()) {
    drawing.text(label, base, to_right, "step " + number(rows[0].x.front()));
    drawing.text(end, base, to_left, number(rows[0].x.back()));
  }
  for (int i = 0; i < 40; ++i) drawing.cell(label + 5.0 * i, base + 12, 5.2, 10, i / 39.0);
  drawing.text(label + 210, base + 21, to_right,
               fmt::format("{} to {} {}", number(color.low), number(color.high), options.y_label));
  return drawing.done();
}

}  // namespace octet
