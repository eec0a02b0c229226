// What charts consist of: axes, colors, and SVG elements.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "kernels/base/terminal.h"
#include "src/report/charts/svg.h"

namespace octet {

struct ChartAxis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool log = false;
  double from = 0, to = 1;  // the same range in pixels

  bool shows(double value) const;
  void include(double value);
  // Makes the range of the included values one that can be drawn, with a share of it on both sides. If no value is
  // negative, the range is not either.
  void settle(double margin = 0);
  // Moves the ends of a linear axis outwards to ticks, but not beyond `most`.
  void round_ends(double most);
  double operator()(double value) const;  // in pixels
  std::vector<double> ticks() const;

 private:
  double tick_distance() const;
};

inline constexpr int chart_left = 58, chart_right = 16, chart_top = 40, chart_bottom = 46;  // margins in pixels
inline constexpr double letter_width = 7.3;  // pixels of a letter, on average
inline constexpr const char *soft_text = "class=\"soft\"", *ink_text = "class=\"ink\"", *grid_line = "class=\"grid\"";
inline constexpr const char *to_right = "start", *centered = "middle", *to_left = "end";  // of the point of a text

struct ChartDrawing {
  std::string svg;

  ChartDrawing(const ChartOptions&, int height);
  void text(double x, double y, const char* anchor, const std::string& text, const std::string& style = soft_text);
  void line(double x1, double y1, double x2, double y2, const std::string& style = grid_line,
            const std::string& tip = "");
  void cell(double x, double y, double width, double height, double depth, const std::string& tip = "");
  void dot(double x, double y, double radius, const std::string& tip);  // of the current color
  std::string done() const { return svg + "</svg>\n"; }
};

inline constexpr int palette_size = 10;
// Attributes that set the color of an element and of those inside it. A page may give the class another color.
std::string palette_color(int index);
std::string depth_color(double share);  // 0 (dark) to 1 (bright), in steps
// A color of the scale viridis, "#440154".
std::string viridis(double share);

std::string tooltip(const std::string& text);  // shown where the pointer is over the element
std::string number_text(double value);
// At most so many pixels of text: of a longer one the middle is left out, "backbone…conv1".
std::string shortened(const std::string& text, double pixels);

}  // namespace octet
