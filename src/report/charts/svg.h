// Charts as SVG text, for `octet study` and `octet inspect`. Written here because common libraries draw through a
// window system or another program such as gnuplot. Colors are CSS variables or classes with defaults, so that a page
// can have a dark form. Every mark has a tooltip.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet {

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_y = false;
  bool by_depth = false;  // many ordered series, such as layers: colors from dark to bright and a scale of them with
                          // the first and the last name; no legend
  std::optional<double> top = {};   // values above are drawn as arrows at the upper edge
  std::optional<double> most = {};  // no value can be greater: 100 for a percentage
  struct Mark {
    double x = 0;
    std::string name;
  };
  std::optional<Mark> mark = {};  // a vertical line
  int width = 760, height = 340;
};

struct Series {
  // faint: beside the main ones. strong, dashed: of the text's color, also where colors show depth.
  enum class Stroke : uint8_t { plain, faint, strong, dashed };

  std::string name;
  std::vector<double> x = {}, y = {};  // of equal length; a value that is not finite leaves a gap
  std::vector<double> deviation = {};  // empty, or the half height of a band around y
  Stroke stroke = Stroke::plain;
  int color = -1;         // index of the palette; -1: the series' place
  bool in_legend = true;  // by_depth: a plain series is not, in any case

  Series scaled(double factor) const {
    Series result = *this;
    for (double& value : result.y) value *= factor;
    return result;
  }
};
// Few points have dots. Where no value is negative, the axis does not go below 0. The ends of a linear axis are ticks.
std::string line_chart(const ChartOptions&, std::span<const Series>);

struct Bar {
  std::string name;
  std::optional<double> value = {};  // empty: no run has finished
  double deviation = 0;
  std::optional<double> reference = {};  // drawn as a tick, for example the published value
  size_t failed = 0;                     // number of failed runs
};
std::string bar_chart(const ChartOptions&, std::span<const Bar>, const std::string& reference_name);

// One row of colored cells per series, a cell for each of its values; dark is low. More than 40 rows are named by
// block: "layer1.0" for "layer1.0.conv1" and its neighbors.
std::string heat_map(const ChartOptions&, std::span<const Series> rows);

// A confusion matrix: a row for each class, a column for each answer. counts: names.size() squared, row by row.
std::string matrix_chart(const ChartOptions&, std::span<const std::string> names, std::span<const int64_t> counts);

std::string escaped(const std::string& text);  // for XML and HTML

}  // namespace octet
