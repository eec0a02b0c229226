// Charts: well-formed, and drawn where the numbers say.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/report/charts/svg.h"

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

// Records come from others too. A logarithmic axis to infinity would have ticks without end.
TEST(Svg, ValuesAtTheLimitsOfTheirTypeAreLeftOut) {
  const Series series{.name = "c", .x = {1, 2, 3}, .y = {1, 1.7e308, 10}, .deviation = {}};
  for (const bool log : {false, true}) {
    const std::string svg = line_chart({.log_y = log}, std::span(&series, 1));
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(count_of(svg, "1.7e"), 0u);
  }
}

TEST(Svg, OneValueIsADot) {
  const Series series{.name = "test", .x = {1, 2, 3, 4}, .y = {1, std::nan(""), 2, 3}, .deviation = {}};
  EXPECT_EQ(count_of(line_chart({}, std::span(&series, 1)), "h0"), 1u);
}

TEST(Svg, FewPointsHaveDots) {
  Series series{.name = "test", .x = {1, 2, 3}, .y = {1, 2, 3}};
  EXPECT_EQ(count_of(line_chart({.x_label = "epoch"}, std::span(&series, 1)), "<circle"), 3u);
  EXPECT_NE(line_chart({.x_label = "epoch"}, std::span(&series, 1)).find("<title>test, epoch 2: 2</title>"),
            std::string::npos);
  series.stroke = Series::Stroke::faint;
  EXPECT_EQ(count_of(line_chart({}, std::span(&series, 1)), "<circle"), 0u);
  for (int i = 4; i < 100; ++i) series.x.push_back(i), series.y.push_back(i);
  series.stroke = Series::Stroke::plain;
  EXPECT_EQ(count_of(line_chart({}, std::span(&series, 1)), "<circle"), 0u);
}

TEST(Svg, AnAxisOfPositiveValuesDoesNotGoBelowZero) {
  for (const std::vector<double>& values : {std::vector<double>{0, 0.1}, {0.05}, {0}, {1e-9, 3}}) {
    const Series series{.name = "rate", .x = std::vector<double>(values.size(), 1), .y = values};
    EXPECT_EQ(line_chart({}, std::span(&series, 1)).find(">-"), std::string::npos) << values.front();
  }
  const Series negative{.name = "log2", .x = {1, 2}, .y = {-3, 4}};
  EXPECT_NE(line_chart({}, std::span(&negative, 1)).find(">-2<"), std::string::npos);
}

TEST(Svg, AnAxisEndsAtTicks) {
  const Series share{.name = "test", .x = {0.5, 10}, .y = {12, 97}};
  const std::string svg = line_chart({.title = "a \"b\"", .most = 100}, std::span(&share, 1));
  for (const char* tick : {">0<", ">20<", ">100<"}) EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(svg.find(">120<"), std::string::npos) << "no share is greater than 100 %";
  EXPECT_NE(svg.find("role=\"img\" aria-label=\"a &quot;b&quot;\""), std::string::npos);
}

TEST(Svg, EveryLineIsInTheLegendUnlessToldOtherwise) {
  Series pale{.name = "single batches", .x = {1, 2}, .y = {1, 2}, .stroke = Series::Stroke::faint};
  EXPECT_EQ(count_of(line_chart({}, std::span(&pale, 1)), ">single batches</text>"), 1u);
  pale.in_legend = false;
  EXPECT_EQ(count_of(line_chart({}, std::span(&pale, 1)), ">single batches</text>"), 0u);
}

TEST(Svg, LongNamesLoseTheirMiddle) {
  const std::string name = "Ж" + std::string(60, 'a') + "é";
  const Series series{.name = name, .x = {1, 2}, .y = {1, 2}};
  const std::string svg = line_chart({.width = 200}, std::span(&series, 1));
  EXPECT_EQ(count_of(svg, ">" + name + "</text>"), 0u);
  EXPECT_EQ(count_of(svg, "…"), 1u);
  EXPECT_EQ(count_of(svg, "aé</text>"), 1u);
}

TEST(Svg, ValuesAboveTheTopAreArrows) {
  const Series series{.name = "test", .x = {1, 2, 3}, .y = {562, 2, 1}};
  const std::string svg = line_chart({.top = 4}, std::span(&series, 1));
  EXPECT_EQ(svg.find(">500<"), std::string::npos);
  EXPECT_NE(svg.find(">4<"), std::string::npos);
  EXPECT_EQ(count_of(svg, "l5 9h-10z"), 1u);
  EXPECT_NE(svg.find("test,  1: 562"), std::string::npos);
  EXPECT_EQ(count_of(svg, "<circle"), 2u);
}

TEST(Svg, AMarkIsNamed) {
  const Series series{.name = "test", .x = {0, 10}, .y = {1, 2}};
  EXPECT_NE(line_chart({.mark = {{7, "best"}}}, std::span(&series, 1)).find(">best</text>"), std::string::npos);
}

TEST(Svg, ColorsByDepthHaveAScaleWithTwoNames) {
  std::vector<Series> series;
  for (const char* name : {"conv1", "conv2", "conv3"}) series.push_back({.name = name, .x = {1, 2}, .y = {1, 2}});
  series.push_back({.name = "median", .x = {1, 2}, .y = {1, 2}, .stroke = Series::Stroke::strong});
  const std::string svg = line_chart({.by_depth = true}, series);
  EXPECT_EQ(count_of(svg, ">conv1</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">conv2</text>"), 0u);
  EXPECT_EQ(count_of(svg, ">conv3</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">median</text>"), 1u);
}

TEST(Svg, AHeatMapOfManyRowsNamesBlocks) {
  std::vector<Series> rows;
  for (int block = 0; block < 10; ++block)
    for (int layer = 0; layer < 5; ++layer)
      rows.push_back(
          {.name = "features." + std::to_string(block) + ".conv" + std::to_string(layer), .x = {1}, .y = {1}});
  const std::string svg = heat_map({}, rows);
  EXPECT_EQ(count_of(svg, ">features.3</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">features.3.conv1</text>"), 0u);
  EXPECT_NE(svg.find("features.3.conv1, step 1: 1"), std::string::npos);
  EXPECT_EQ(count_of(heat_map({}, std::span(rows).first(20)), ">features.3.conv1</text>"), 1u);
}

TEST(Svg, AMatrixShowsCountsAndNothingForNone) {
  const std::string names[] = {"<cat>", "dog"};
  const int64_t counts[] = {9, 1, 0, 5};
  const std::string svg = matrix_chart({}, names, counts);
  EXPECT_EQ(count_of(svg, "<rect"), 3u);
  EXPECT_NE(svg.find("<title>&lt;cat&gt; taken for dog: 1 of 10</title>"), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"miss\""), 1u);
  EXPECT_NE(matrix_chart({}, {}, {}).find("</svg>"), std::string::npos);
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
