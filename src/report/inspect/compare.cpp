// A page about several runs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "src/config/keys.h"
#include "src/report/inspect/inspect.h"
#include "src/report/inspect/run_facts.h"
#include "src/report/page.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

using Runs = std::vector<RunFacts>;
constexpr const char* none = "&ndash;";

std::string cell(const std::string& html) { return "<td>" + html + "</td>"; }
std::string table(const std::vector<std::string>& heads, const std::vector<std::string>& rows) {
  std::string html = "<table><thead><tr>";
  for (const std::string& head : heads) html += "<th>" + escaped(head) + "</th>";
  html += "</tr></thead><tbody>";
  for (const std::string& row : rows) html += "<tr>" + row + "</tr>";
  return card(html + "</tbody></table>");
}

// Figures of a run by the heads of the table's columns.
std::vector<std::pair<std::string, std::string>> figures_of(const RunFacts& run) {
  std::vector<std::pair<std::string, std::string>> figures;
  if (!run.result) return {{"steps", fmt::format("{}, not finished", run.records.steps)}};
  const Result& result = *run.result;
  for (const Scalar& metric : result.metrics)
    if (const MetricDisplay display = display_of(metric.name); display.main)
      figures.emplace_back("test " + display.label, display.text(metric.value));
  if (result.best) {
    const Scalar& judge = result.best->figures.front();
    const MetricDisplay display = display_of(judge.name);
    figures.emplace_back("best " + display.label,
                         fmt::format("{} in epoch {}", display.text(judge.value), result.best->epoch));
  }
  figures.emplace_back("epochs", fmt::to_string(result.epochs));
  figures.emplace_back("steps", fmt::to_string(result.steps));
  if (const double seconds = run.records.train_seconds(); seconds > 0)
    figures.emplace_back("training time", duration_text(seconds));
  if (result.images_per_second) figures.emplace_back("images / s", fmt::format("{:.0f}", *result.images_per_second));
  figures.emplace_back("weights", result.weights_sha256.substr(0, 8));
  figures.emplace_back("commit", result.commit);
  return figures;
}

std::string figure_table(const Runs& runs) {
  std::vector<std::string> heads = {"run"}, rows;
  for (const RunFacts& run : runs)
    for (const auto& [head, figure] : figures_of(run))
      if (std::ranges::count(heads, head) == 0) heads.push_back(head);
  for (const RunFacts& run : runs) {
    std::string row = cell(escaped(run.name));
    const auto figures = figures_of(run);
    for (size_t column = 1; column < heads.size(); ++column) {
      const auto found = std::ranges::find(figures, heads[column], [](const auto& figure) { return figure.first; });
      row += cell(found == figures.end() ? none : escaped(found->second));
    }
    rows.push_back(row);
  }
  return "<h2>Figures</h2>\n" + table(heads, rows);
}

std::string recipe_table(const Runs& runs) {
  std::vector<std::string> heads = {"key"}, rows;
  std::vector<Config> configs;
  for (const RunFacts& run : runs)
    if (run.config) configs.push_back(*run.config), heads.push_back(run.name);
  for (const auto& [key, values] : differences(configs)) {
    std::string row = cell(escaped(key));
    for (const std::string& value : values) row += cell(escaped(value));
    rows.push_back(row);
  }
  if (rows.empty()) return "<h2>Recipes</h2>\n<p>The recipes are equal.</p>\n";
  return "<h2>What differs in the recipes</h2>\n" + table(heads, rows);
}

// One curve for each run that has the record.
std::string chart_of(const Runs& runs, const std::string& record, const std::string& what) {
  const MetricDisplay display = display_of(record.substr(record.find('/') + 1));
  const bool epochs = std::ranges::all_of(runs, [](const RunFacts& run) { return run.records.steps_per_epoch > 0; });
  ChartOptions options{.title = display.title + what,
                       .x_label = epochs ? "epoch" : "step",
                       .y_label = display.share ? "%" : "",
                       .width = card_chart_width};
  if (display.share) options.most = 100;
  std::vector<Series> series;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto found = runs[i].records.metrics.find(record);
    if (found == runs[i].records.metrics.end()) continue;
    series.push_back(found->second.scaled(display.factor()));
    series.back().name = runs[i].name;
    series.back().color = int(i);
    for (double& x : series.back().x) x /= epochs ? *runs[i].records.steps_per_epoch : 1;
  }
  return series.empty() ? "" : card(line_chart(options, series));
}

std::string charts(const Runs& runs) {
  std::set<std::string> tested;
  for (const RunFacts& run : runs)
    for (const auto& [name, values] : run.records.metrics)
      if (name.starts_with("test/") && display_of(name.substr(5)).main) tested.insert(name);
  std::string html = chart_of(runs, "epoch/loss", ", training");
  for (const std::string& name : tested) html += chart_of(runs, name, ", test");
  html += chart_of(runs, "epoch/learning_rate", "") + chart_of(runs, "epoch/images_per_second", "");
  return "<h2>Curves</h2>\n" + card_grid(html);
}

// Runs of one name in several folders keep so many of their last folders that the names differ.
void tell_apart(Runs& runs, const std::vector<std::string>& directories) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto same = [&](const RunFacts& other) { return other.name == runs[i].name; };
    if (std::ranges::count_if(runs, same) > 1) runs[i].name = directories[i];
  }
}

}  // namespace

std::string comparison_page(const std::vector<std::string>& directories) {
  Runs runs;
  for (const std::string& directory : directories) runs.push_back(read_run(directory));
  tell_apart(runs, directories);
  return html_page(fmt::format("{} runs", runs.size()), "Training runs of octet, side by side.",
                   figure_table(runs) + recipe_table(runs) + charts(runs));
}

}  // namespace octet
