// Charts as SVG text, for `octet study` and `octet inspect`. Written here because common libraries draw through a
// window system or another program such as gnuplot. Colors are CSS variables with defaults, so that a page can have a
// dark form. Every mark has a tooltip.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet {

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_y = false;
  bool by_depth = false;  // many ordered series, such as layers: colors from dark to bright, no legend
  int width = 760, height = 340;
};

struct Series {
  std::string name;
  std::vector<double> x, y;            // of equal length; a value that is not finite leaves a gap
  std::vector<double> deviation = {};  // empty, or the half height of a band around y

  Series scaled(double factor) const {
    Series result = *this;
    for (double& value : result.y) value *= factor;
    return result;
  }
};
std::string line_chart(const ChartOptions&, std::span<const Series>);

struct Bar {
  std::string name;
  std::optional<double> value = {};  // empty: no run has finished
  double deviation = 0;
  std::optional<double> reference = {};  // drawn as a tick, for example the published value
  size_t failed = 0;                     // number of failed runs
};
std::string bar_chart(const ChartOptions&, std::span<const Bar>, const std::string& reference_name);

// One row of colored cells per series, a cell for each of its values; dark is low.
std::string heat_map(const ChartOptions&, std::span<const Series> rows);

std::string escaped(const std::string& text);  // for XML and HTML

}  // namespace octet
