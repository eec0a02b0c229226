// Charts: well-formed, and drawn where the numbers say.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/report/svg.h"

namespace octet {
namespace {

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Svg, LinesLeaveGapsAndNamesAreEscaped) {
  const Series series{.name = "a<b> & \"c\"", .x = {1, 2, 3, 4, 5}, .y = {1, 2, std::nan(""), 4, 5}, .deviation = {}};
  const std::string svg = line_chart({.title = "loss & <more>"}, std::span(&series, 1));
  EXPECT_EQ(count_of(svg, "<svg"), 1u);
  EXPECT_EQ(count_of(svg, "</svg>"), 1u);
  EXPECT_NE(svg.find("a&lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const size_t path = svg.find(" d=\"M");
  ASSERT_NE(path, std::string::npos);
  const std::string commands = svg.substr(path, svg.find('"', path + 5) - path);
  EXPECT_EQ(count_of(commands, "M"), 2u) << commands;  // a gap at the third point
  EXPECT_EQ(count_of(commands, "L"), 2u) << commands;
}

TEST(Svg, NothingToDrawIsNoError) {
  EXPECT_NE(line_chart({}, {}).find("</svg>"), std::string::npos);
  EXPECT_NE(heat_map({}, {}).find("</svg>"), std::string::npos);
  const Series constant{.name = "c", .x = {1}, .y = {0}, .deviation = {}};
  for (bool log : {false, true}) {
    const std::string svg = line_chart({.log_y = log}, std::span(&constant, 1));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

// Means of equal values differ from them by their rounding.
TEST(Svg, AnAxisOfNearlyEqualValuesHasFewTicks) {
  for (const double value : {0.81, 1e9, -3e-7}) {
    const Bar bars[] = {{.name = "a", .value = value}, {.name = "b", .value = std::nextafter(value, 1e300)}};
    EXPECT_LT(count_of(bar_chart({}, bars, ""), "class=\"grid\""), 20u) << value;
  }
}

TEST(Svg, OneValueIsADot) {
  const Series series{.name = "test", .x = {1, 2, 3, 4}, .y = {1, std::nan(""), 2, 3}, .deviation = {}};
  EXPECT_EQ(count_of(line_chart({}, std::span(&series, 1)), "h0"), 1u);
}

TEST(Svg, AHeatMapShowsSomeOfVeryManyUpdates) {
  Series row{.name = "conv1", .x = {}, .y = {}, .deviation = {}};
  for (int i = 0; i < 10000; ++i) row.x.push_back(i), row.y.push_back(i);
  EXPECT_EQ(count_of(heat_map({}, std::span(&row, 1)), "<rect"), 440u);  // cells and the scale of colors
}

TEST(Svg, StepsAreWrittenInFull) {
  const Series steps{.name = "loss", .x = {0, 60'000}, .y = {2.5, 0.5}, .deviation = {}};
  const std::string svg = line_chart({}, std::span(&steps, 1));
  EXPECT_NE(svg.find(">20000<"), std::string::npos) << svg;
}

TEST(Svg, MissingBarSaysWhy) {
  const Bar bars[] = {{.name = "good", .value = 93.0, .deviation = 0.2, .reference = 93.4},
                      {.name = "bad", .failed = true},
                      {.name = "to do"}};
  const std::string svg = bar_chart({}, bars, "paper");
  EXPECT_EQ(count_of(svg, "diverged or failed"), 1u);
  EXPECT_EQ(count_of(svg, "no result yet"), 1u);
  EXPECT_NE(svg.find("paper: 93.4"), std::string::npos);
}

}  // namespace
}  // namespace octet
