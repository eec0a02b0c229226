#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/report/charts/chart_parts.h"

namespace octet {
namespace {

using Stroke = Series::Stroke;

constexpr size_t few_points = 40;  // with dots

std::string path_of(const Series& series, const ChartAxis& x, const ChartAxis& y) {
  std::string path;
  bool drawing = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = y.shows(series.y[i]);
    if (shown)
      path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x(series.x[i]), y(std::min(series.y[i], y.high)));
    const bool continues = i + 1 < series.x.size() && y.shows(series.y[i + 1]);
    if (shown && !drawing && !continues) path += "h0";  // a dot
    drawing = shown;
  }
  return path;
}

std::string band_of(const Series& series, const ChartAxis& x, const ChartAxis& y) {
  if (series.deviation.empty()) return {};
  std::string points;
  const auto add = [&](size_t i, double sign) {
    const double value = series.y[i] + sign * series.deviation[i];
    if (y.shows(value)) points += fmt::format("{:.1f},{:.1f} ", x(series.x[i]), y(std::min(value, y.high)));
  };
  for (size_t i = 0; i < series.x.size(); ++i) add(i, 1);
  for (size_t i = series.x.size(); i-- > 0;) add(i, -1);
  return fmt::format("<polygon points=\"{}\" fill=\"currentColor\" opacity=\"0.15\"/>\n", points);
}

void draw_axes(ChartDrawing& drawing, const ChartOptions& options, const ChartAxis& x, const ChartAxis& y) {
  for (double tick : y.ticks()) {
    drawing.line(x.from, y(tick), x.to, y(tick));
    drawing.text(x.from - 8, y(tick) + 4, to_left, number_text(tick));
  }
  for (double tick : x.ticks()) drawing.text(x(tick), y.from + 18, centered, number_text(tick));
  drawing.text(x.to, y.from + 36, to_left, options.x_label);
  const double middle = (y.from + y.to) / 2;
  drawing.text(14, middle, centered, options.y_label,
               fmt::format("{} transform=\"rotate(-90 14 {:.1f})\"", soft_text, middle));
  if (!options.mark) return;
  const double place = x(options.mark->x);
  drawing.line(place, y.from, place, y.to, "class=\"mark\" stroke-dasharray=\"3 4\"", options.mark->name);
  drawing.text(place, y.to - 4, centered, options.mark->name);
}

// Dots where there are few points, and an arrow for each value above the axis.
void draw_points(ChartDrawing& drawing, const ChartOptions& options, const Series& series, const ChartAxis& x,
                 const ChartAxis& y) {
  const auto shown = std::ranges::count_if(series.y, [&](double value) { return y.shows(value); });
  const bool dots =
      !options.by_depth && (shown == 1 || (series.stroke == Stroke::plain && series.y.size() <= few_points));
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!y.shows(series.y[i])) continue;
    const double place = x(series.x[i]);
    const std::string tip =
        fmt::format("{}, {} {}: {}", series.name, options.x_label, number_text(series.x[i]), number_text(series.y[i]));
    if (series.y[i] > y.high && series.stroke != Stroke::faint)
      drawing.svg += fmt::format("<path d=\"M{0:.1f} {1:.1f}l5 9h-10z\" fill=\"currentColor\">{2}</path>\n", place,
                                 y.to - 4, tooltip(tip));
    else if (dots && series.y[i] <= y.high)
      drawing.dot(place, y(series.y[i]), 2.6, tip);
  }
}

class Legend {
 public:
  Legend(const ChartOptions& options, std::span<const Series> series) : options_(options) {
    size_t longest = 0;
    for (const Series& one : series) {
      if (!names(one)) continue;
      ++count_;
      longest = std::max(longest, letters_of(one.name));
    }
    const double room = options.width - chart_left - chart_right;
    columns_ = std::clamp(static_cast<int>(room / (30 + letter_width * static_cast<double>(longest))), 1, 3);
  }
  bool names(const Series& one) const {
    if (one.x.empty() || !one.in_legend) return false;
    return !options_.by_depth || one.stroke != Stroke::plain;
  }
  int height() const { return 18 * ((count_ + columns_ - 1) / columns_); }
  void add(ChartDrawing& drawing, const Series& one, const std::string& line_style) {
    const double width = (options_.width - chart_left - chart_right) / static_cast<double>(columns_);
    const int row = named_ / columns_;
    const double x = chart_left + width * (named_ % columns_), y = options_.height + 18.0 * row;
    drawing.line(x, y - 3, x + 14, y - 3, line_style);
    drawing.text(x + 20, y, to_right, shortened(one.name, width - 20), ink_text);
    ++named_;
  }

 private:
  const ChartOptions& options_;
  int count_ = 0, columns_ = 3, named_ = 0;
};

// The colors of by_depth, with the names of the first and the last series.
void draw_depth_scale(ChartDrawing& drawing, const ChartOptions& options, std::span<const Series> series, double y) {
  std::vector<const Series*> plain;
  for (const Series& one : series)
    if (one.stroke == Stroke::plain && !one.x.empty()) plain.push_back(&one);
  if (plain.size() < 2) return;
  constexpr int cells = 8, half = cells / 2;
  const double middle = (chart_left + options.width - chart_right) / 2.0, width = 14;
  for (int i = 0; i < cells; ++i)
    drawing.svg += fmt::format(
        "<g {}><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"10\" fill=\"currentColor\"/></g>\n",
        depth_color(i / (cells - 1.0)), middle + width * (i - half), y - 9, width + 0.3);
  const double room = (options.width - width * cells) / 2 - 40;
  drawing.text(middle - width * cells / 2 - 8, y, to_left, shortened(plain.front()->name, room));
  drawing.text(middle + width * cells / 2 + 8, y, to_right, shortened(plain.back()->name, room));
}

struct Look {
  std::string color;  // attributes
  std::string line;   // of a path
};

Look look_of(const ChartOptions& options, std::span<const Series> series, size_t at) {
  const Series& one = series[at];
  if (one.stroke == Stroke::strong) return {"class=\"ink-line\"", "stroke-width=\"2.6\""};
  if (one.stroke == Stroke::dashed) return {"class=\"ink-line\"", "stroke-dasharray=\"5 4\""};
  if (options.by_depth) {
    const auto plain = [](const Series& other) { return other.stroke == Stroke::plain; };
    const auto before = std::count_if(series.begin(), series.begin() + static_cast<ptrdiff_t>(at), plain);
    const auto all = std::ranges::count_if(series, plain);
    return {depth_color(static_cast<double>(before) / static_cast<double>(std::max<ptrdiff_t>(all - 1, 1))),
            "opacity=\"0.75\""};
  }
  const int color = one.color >= 0 ? one.color : static_cast<int>(at);
  return {palette_color(color), color < palette_size || one.stroke == Stroke::faint ? "" : "stroke-dasharray=\"6 3\""};
}

}  // namespace

std::string line_chart(const ChartOptions& options, std::span<const Series> series) {
  ChartAxis x, y;
  y.log = options.log_y;
  for (const Series& one : series) {
    for (double value : one.x) x.include(value);
    for (size_t i = 0; i < one.y.size(); ++i) {
      const double deviation = one.deviation.empty() ? 0 : one.deviation[i];
      for (const double value : {one.y[i] - deviation, one.y[i] + deviation})
        y.include(options.top && value > *options.top ? *options.top : value);
    }
  }
  Legend legend(options, series);
  x.from = chart_left, x.to = options.width - chart_right;
  y.from = options.height - chart_bottom, y.to = chart_top;
  x.settle(), y.settle();
  if (x.low > 0 && x.low < 0.1 * x.high) x.low = 0;  // epochs and steps are counted from there
  y.round_ends(options.most.value_or(std::numeric_limits<double>::infinity()));

  ChartDrawing drawing(options, options.height + legend.height() + (options.by_depth ? 18 : 0));
  draw_axes(drawing, options, x, y);
  for (size_t i = 0; i < series.size(); ++i) {
    const Series& one = series[i];
    if (one.x.empty()) continue;
    const Look look = look_of(options, series, i);
    const std::string last = one.y.empty() ? "" : ": " + number_text(one.y.back()) + " at last";
    drawing.svg += fmt::format("<g {}>\n{}<path class=\"line{}\" d=\"{}\" stroke=\"currentColor\" {}>{}</path>\n",
                               look.color, band_of(one, x, y), one.stroke == Stroke::faint ? " faint" : "",
                               path_of(one, x, y), look.line, tooltip(one.name + last));
    draw_points(drawing, options, one, x, y);
    const std::string pale = one.stroke == Stroke::faint ? "opacity=\".35\" " : "";
    if (legend.names(one)) legend.add(drawing, one, "stroke=\"currentColor\" stroke-width=\"3\" " + pale + look.line);
    drawing.svg += "</g>\n";
  }
  if (options.by_depth) draw_depth_scale(drawing, options, series, options.height + legend.height() + 6);
  return drawing.done();
}

}  // namespace octet
