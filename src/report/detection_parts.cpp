#include "src/report/detection_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/report/charts/svg.h"
#include "src/report/page.h"

namespace octet {
namespace {

constexpr size_t curves_in_chart = 10;  // as many as there are colors

using Class = DetectionFigures::Class;

std::string percents(double share) { return fmt::format("{:.1f}", 100 * share); }

// The part of the curve that detections reach. It is of the smallest overlap that counts, as COCO's AP50 is.
Series curve_of(const Class& of) {
  const auto ap50 = std::ranges::find(of.figures, std::string("AP50"), &Scalar::name);
  const Scalar& figure = ap50 != of.figures.end() ? *ap50 : of.figures.front();
  Series series{.name = fmt::format("{}, {} {}", of.name, figure.name, percents(figure.value)), .x = {}, .y = {}};
  const auto reached = std::ranges::find(of.precision, 0.0) - of.precision.begin();
  for (ptrdiff_t i = 0; i < reached; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(100 * of.precision[static_cast<size_t>(i)]);
  }
  return series;
}

// Of the classes of which something was found. Where they need several charts, those behind the first are folded.
std::string precision_curves(const std::vector<const Class*>& all) {
  std::vector<const Class*> classes;
  std::ranges::copy_if(all, std::back_inserter(classes), [](const Class* of) { return !curve_of(*of).x.empty(); });
  if (classes.empty()) return card("<p>No object was found, so there are no curves of precision over recall.</p>");
  std::string first_chart, others;
  for (size_t first = 0; first < classes.size(); first += curves_in_chart) {
    std::vector<Series> series;
    const size_t last = std::min(first + curves_in_chart, classes.size());
    for (size_t i = first; i < last; ++i) series.push_back(curve_of(*classes[i]));
    std::string title = "Precision over recall";
    if (classes.size() > curves_in_chart) title += fmt::format(", classes {} to {}", first + 1, last);
    (first == 0 ? first_chart : others) += card(line_chart(
        {.title = title, .x_label = "recall, %", .y_label = "precision, %", .most = 100, .width = 460, .height = 340},
        series));
  }
  if (others.empty()) return first_chart;
  return "<div class=\"stack\">" + first_chart + "<details><summary>The other classes</summary>" + others +
         "</details></div>\n";
}

std::string at_score_cells(const AtScore& of) {
  return fmt::format("<td>{} %</td><td>{} %</td><td>{} %</td><td>{}</td>", percents(of.precision), percents(of.recall),
                     percents(of.f1), of.score < 0 ? "-" : fmt::format("{:.3f}", of.score));
}

std::string objects_table(const DetectionFigures& judged, const std::vector<const Class*>& classes) {
  const Scalars& columns = classes.front()->figures;
  std::string html = "<div class=\"card list\"><table><tr><th>class</th><th>objects</th>";
  for (const Scalar& figure : columns) html += "<th>" + escaped(figure.name) + "</th>";
  html += "<th>precision</th><th>recall</th><th>F1</th><th>score</th><th></th></tr>\n";
  for (const Class* of : classes) {
    html += fmt::format("<tr><td>{}</td><td>{}</td>", escaped(of->name), of->objects);
    for (const Scalar& figure : of->figures) html += "<td>" + percents(figure.value) + " %</td>";
    html += at_score_cells(of->best) + bar_cell(of->figures.front().value) + "</tr>\n";
  }
  html += fmt::format("<tr><td>at one score for all</td><td colspan=\"{}\"></td>", 1 + columns.size());
  return html + at_score_cells(judged.at_one_score) + "<td></td></tr>\n</table></div>\n";
}

constexpr const char* heading =
    "<h2>Classes</h2><p>Average precision by class, and the share of right detections over the share of objects found, "
    "at an overlap of 0.5. Of detections above a score, the best precision at this recall or a higher one is shown. A "
    "curve ends where all detections are counted. Precision, recall and F1 are those of the detections at this score "
    "or a "
    "higher one, where F1 is greatest.</p>\n";

}  // namespace

std::string detection_cards(const DetectionFigures& judged) {
  std::vector<const Class*> classes;
  for (const Class& of : judged.classes)
    if (of.objects > 0) classes.push_back(&of);
  if (classes.empty()) return std::string(heading) + "<p>No object of the test set counts.</p>\n";
  return heading + ("<div class=\"stack\">" + objects_table(judged, classes)) + "</div>\n" +
         card_grid(precision_curves(classes), classes.size() > curves_in_chart ? "two" : "wide");
}

}  // namespace octet
