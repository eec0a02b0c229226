#include "src/report/charts/chart_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace octet {

// The ends of an axis lie beyond its values, and must still be numbers with decades between them.
bool ChartAxis::shows(double value) const {
  constexpr double most = 1e300;
  return std::abs(value) < most && (!log || value > 1 / most);
}

void ChartAxis::include(double value) {
  if (!shows(value)) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

void ChartAxis::settle(double margin) {
  if (low > high) low = log ? 0.1 : 0, high = 1;
  const bool negative = low < 0;
  if (log) {
    low = std::pow(10, std::floor(std::log10(low)));
    high = std::pow(10, std::ceil(std::log10(high)));
    if (low == high) high *= 10;
    return;
  }
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high)))
    low -= std::abs(low) * 0.1 + 0.1, high += std::abs(high) * 0.1 + 0.1;
  margin *= high - low;
  low -= margin, high += margin;
  if (!negative) low = std::max(low, 0.0);
}

void ChartAxis::round_ends(double most) {
  if (log) return;
  const double distance = tick_distance(), slack = 1e-9;
  low = distance * std::floor(low / distance + slack);
  high = std::min(distance * std::ceil(high / distance - slack), most);
}

double ChartAxis::operator()(double value) const {
  const double share =
      log ? (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low)) : (value - low) / (high - low);
  return from + share * (to - from);
}

double ChartAxis::tick_distance() const {
  const double rough = (high - low) / 5, unit = std::pow(10, std::floor(std::log10(rough)));
  return unit * (rough / unit > 5 ? 10 : rough / unit > 2 ? 5 : rough / unit > 1 ? 2 : 1);
}

std::vector<double> ChartAxis::ticks() const {
  std::vector<double> ticks;
  if (log) {
    const double decades = std::log10(high / low), every = std::max(1.0, std::ceil(decades / 6));
    for (double exponent = std::ceil(std::log10(low)); exponent <= std::log10(high) + 1e-9; exponent += every)
      ticks.push_back(std::pow(10, exponent));
    return ticks;
  }
  const double step = tick_distance(), first = std::ceil(low / step - 1e-9);
  for (int i = 0; i < 12 && (first + i) * step <= high + step * 1e-9; ++i)
    ticks.push_back((first + i) * step + 0.0);  // no -0
  return ticks;
}

ChartDrawing::ChartDrawing(const ChartOptions& options, int height) {
  svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2}\" font-family=\"system-ui, -apple-system, 'DejaVu Sans', sans-serif\" font-size=\"13\">\n"
      "<style>.ink{{fill:var(--ink,#1e293b)}}.soft{{fill:var(--soft,#64748b)}}.grid{{stroke:var(--grid,#e2e8f0)}}"
      ".mark{{stroke:var(--ink,#1e293b)}}.ink-line{{color:var(--ink,#1e293b)}}.hit{{fill:var(--hit,#2563eb)}}"
      ".miss{{fill:var(--miss,#dc2626)}}.failed{{fill:var(--wrong,#dc2626)}}.line{{fill:none;stroke-width:1.8;stroke-"
      "linejoin:round;"
      "stroke-linecap:round}}.faint{{stroke-width:1;opacity:.35}}.line:hover{{stroke-width:4}}</style>\n"
      "<text class=\"ink\" x=\"8\" y=\"22\" font-size=\"15\" font-weight=\"600\">{3}</text>\n",
      options.width, height, escaped(options.title), escaped(shortened(options.title, options.width * 0.84)));
}

void ChartDrawing::text(double x, double y, const char* anchor, const std::string& text, const std::string& style) {
  svg += fmt::format("<text {} x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style, x, y, anchor,
                     escaped(text));
}

void ChartDrawing::line(double x1, double y1, double x2, double y2, const std::string& style, const std::string& tip) {
  svg += fmt::format("<line {} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\">{}</line>\n", style, x1, y1, x2,
                     y2, tooltip(tip));
}

void ChartDrawing::cell(double x, double y, double width, double height, double depth, const std::string& tip) {
  svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">{}</rect>\n", x, y,
                     width, height, viridis(depth), tooltip(tip));
}

void ChartDrawing::dot(double x, double y, double radius, const std::string& tip) {
  svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"currentColor\">{}</circle>\n", x, y, radius,
                     tooltip(tip));
}

std::string palette_color(int index) {
  constexpr std::array<const char*, palette_size> palette = {"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed",
                                                             "#0891b2", "#db2777", "#65a30d", "#475569", "#b45309"};
  const int place = index % palette_size;
  return fmt::format("color=\"{}\" class=\"c{}\"", palette[static_cast<size_t>(place)], place);
}

std::string viridis(double share) {
  constexpr std::array<std::array<double, 3>, 7> stops = {
      {{68, 1, 84}, {70, 51, 127}, {54, 92, 141}, {39, 127, 142}, {31, 161, 135}, {110, 206, 88}, {253, 231, 37}}};
  const double at = std::clamp(share, 0.0, 1.0) * 5.7;  // the brightest yellow is hard to see on white
  const size_t low = std::min<size_t>(static_cast<size_t>(at), 5);
  const double part = at - static_cast<double>(low);
  const auto mixed = [&](size_t i) {
    return static_cast<int>(std::lround(stops[low][i] * (1 - part) + stops[low + 1][i] * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2));
}

std::string depth_color(double share) {
  constexpr int steps = 8;
  const auto step = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * (steps - 1)));
  return fmt::format("color=\"{}\" class=\"d{}\"", viridis(step / (steps - 1.0)), step);
}

std::string tooltip(const std::string& text) { return text.empty() ? "" : "<title>" + escaped(text) + "</title>"; }

std::string number_text(double value) {
  if (value == std::round(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
  if (value != 0 && (std::abs(value) < 1e-3 || std::abs(value) >= 1e6)) return fmt::format("{:.2g}", value);
  return fmt::format("{:.4g}", value);
}

std::string shortened(const std::string& text, double pixels) {
  const size_t all = letters_of(text), room = static_cast<size_t>(std::max(pixels / letter_width, 3.0));
  if (all <= room) return text;
  const size_t head = (room - 1) / 2, tail = all - (room - 1 - head);
  std::string result;
  size_t place = 0;  // of the letter, from 1
  for (const char c : text) {
    const bool begins = (c & 0xC0) != 0x80;
    place += begins ? 1 : 0;
    if (begins && place == head + 1) result += "…";
    if (place <= head || place > tail) result += c;
  }
  return result;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

}  // namespace octet
