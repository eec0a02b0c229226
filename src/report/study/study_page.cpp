#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/text.h"
#include "src/report/page.h"
#include "src/report/study/study_table.h"

namespace octet {
namespace {

constexpr int gray = 8;  // of the palette

std::string table_html(const StudyOutcome& outcome) {
  std::string html = "<div class=\"card\"><table><tr>";
  for (const std::string& name : outcome.head) html += "<th>" + escaped(name) + "</th>";
  html += "</tr>\n";
  for (const std::vector<std::string>& row : outcome.rows) {
    html += "<tr>";
    for (const std::string& text : row) html += "<td>" + escaped(text) + "</td>";
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string list_html(const StudyOutcome::List& list) {
  std::string html = "<h2>" + escaped(list.title) + "</h2><ul>\n";
  for (const std::string& item : list.items) html += "<li>" + escaped(item) + "</li>\n";
  return html + "</ul>\n";
}

size_t facet_axis(const StudyPlan& plan) {
  const auto policy = std::ranges::find(plan.axes, "policy");
  return static_cast<size_t>((policy == plan.axes.end() ? plan.axes.end() - 1 : policy) - plan.axes.begin());
}

// The row's labels on the other axes, or its only one.
std::string name_in_facet(const StudyRow& row, size_t axis) {
  std::vector<std::string> labels = row.labels;
  if (labels.size() > 1) labels.erase(labels.begin() + static_cast<ptrdiff_t>(axis));
  return joined(labels, " / ");
}

// The curves of the rows with this label, before those of the others in gray. All facets have the same axes.
std::string facet(const StudyPlan& plan, const StudyOutcome& outcome, size_t axis, const std::string& label) {
  std::vector<Series> series, own;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    Series curve = outcome.curves[row];
    if (plan.rows[row].labels[axis] == label) {
      curve.name = name_in_facet(plan.rows[row], axis);
      curve.color = static_cast<int>(own.size()) % gray;
      own.push_back(std::move(curve));
    } else {
      curve.stroke = Series::Stroke::faint;
      curve.color = gray;
      curve.in_legend = false;
      curve.deviation.clear();
      series.push_back(std::move(curve));
    }
  }
  series.insert(series.end(), own.begin(), own.end());
  return card(line_chart(
      {.title = label, .x_label = "step", .y_label = outcome.unit, .width = card_chart_width, .height = 280}, series));
}

std::string facets(const StudyPlan& plan, const StudyOutcome& outcome) {
  const size_t axis = facet_axis(plan);
  std::vector<std::string> labels;
  for (const StudyRow& row : plan.rows)
    if (std::ranges::find(labels, row.labels[axis]) == labels.end()) labels.push_back(row.labels[axis]);
  std::string charts;
  for (const std::string& label : labels) charts += facet(plan, outcome, axis, label);
  return fmt::format(
             "<h2>{}, by {}</h2><p>Means over seeds on the test set, with their deviations; in gray the other rows."
             "</p>\n",
             escaped(outcome.metric), escaped(plan.axes[axis])) +
         card_grid(charts, "three");
}

}  // namespace

std::string study_page(const StudyPlan& plan, const StudyOutcome& outcome) {
  std::string sentence = outcome.sentence;
  std::erase(sentence, '`');  // of Markdown
  std::string html = table_html(outcome) + "<p>" + escaped(sentence) + "</p>\n";
  html += "<div class=\"card wide\">" +
          bar_chart({.title = "Means over seeds", .x_label = "test " + outcome.unit, .width = 440}, outcome.bars,
                    plan.paper_says) +
          "</div>\n";
  html += facets(plan, outcome);
  for (const StudyOutcome::List& list : outcome.lists) html += list_html(list);
  return html_page(plan.title, plan.note, html);
}

}  // namespace octet
