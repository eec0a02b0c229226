#include "src/report/study_table.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kernels/base/durable_file.h"
#include "src/report/records.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

struct Summary {
  double mean = 0, deviation = 0;
};
Summary summary_of(const std::vector<double>& values) {
  Summary summary;
  for (double value : values) summary.mean += value / double(values.size());
  for (double value : values) summary.deviation += (value - summary.mean) * (value - summary.mean);
  summary.deviation = values.size() > 1 ? std::sqrt(summary.deviation / double(values.size() - 1)) : 0;
  return summary;
}

struct Outcome {
  std::vector<double> top1, epoch_seconds, peak_megabytes;  // of the finished runs
  std::vector<Series> curves;                               // test top-1, percent
  std::vector<std::string> failures, left_out, commits;
  size_t planned = 0;
};

Outcome outcome_of(const StudyPlan& plan, size_t row, const std::string& directory) {
  Outcome outcome;
  for (const StudyRun& run : plan.runs) {
    if (run.row != row) continue;
    ++outcome.planned;
    const std::filesystem::path path = std::filesystem::path(directory) / run.name;
    if (const std::string changed = changed_since(plan, run, path.string()); !changed.empty()) {
      outcome.left_out.push_back(run.name + ": " + changed);
      continue;
    }
    std::ifstream failed(path / "failed.txt"), finished(path / "result.json");
    const Json result = Json::parse(finished, nullptr, /*allow_exceptions=*/false);
    if (!result.is_object()) {
      if (std::string reason; std::getline(failed, reason)) outcome.failures.push_back(run.name + ": " + reason);
      continue;
    }
    outcome.top1.push_back(100 * result.value("top1", 0.0));
    outcome.commits.push_back(result.value("commit", "unknown"));
    const double speed = result.value("images_per_second", 0.0);
    outcome.peak_megabytes.push_back(result.value("peak_memory_bytes", 0.0) / 1e6);
    // Older results hold no images_per_epoch.
    const double images = result.value("images", 0.0) / result.value("epochs", 1.0);
    if (speed > 0) outcome.epoch_seconds.push_back(result.value("images_per_epoch", images) / speed);
    if (!std::filesystem::exists(path / "metrics.jsonl")) continue;
    const RunRecords records = read_records(path.string());
    if (const auto curve = records.metrics.find("test/top1"); curve != records.metrics.end()) {
      outcome.curves.push_back(curve->second);
      for (double& value : outcome.curves.back().y) value *= 100;
    }
  }
  return outcome;
}

// The mean over seeds with their deviation, at the steps that all of them have.
Series mean_curve(const std::string& name, const std::vector<Series>& curves) {
  Series mean;
  mean.name = name;
  std::map<double, std::vector<double>> by_step;
  for (const Series& curve : curves)
    for (size_t i = 0; i < curve.x.size(); ++i) by_step[curve.x[i]].push_back(curve.y[i]);
  for (const auto& [step, values] : by_step) {
    if (values.size() < curves.size()) continue;
    const Summary summary = summary_of(values);
    mean.x.push_back(step);
    mean.y.push_back(summary.mean);
    if (curves.size() > 1) mean.deviation.push_back(summary.deviation);
  }
  return mean;
}

// Of the difference of two means; nothing where one of them stands on a single run.
std::optional<double> standard_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || b.size() < 2) return {};
  const double of_a = summary_of(a).deviation, of_b = summary_of(b).deviation;
  return std::sqrt(of_a * of_a / double(a.size()) + of_b * of_b / double(b.size()));
}

// Of a Markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string with_deviation(const std::vector<double>& values, const char* format_of_mean) {
  if (values.empty()) return "-";
  const Summary summary = summary_of(values);
  std::string text = fmt::format(fmt::runtime(format_of_mean), summary.mean);
  if (values.size() > 1) text += fmt::format(" ± {}", fmt::format(fmt::runtime(format_of_mean), summary.deviation));
  return text;
}

}  // namespace

void write_study_table(const StudyPlan& plan, const std::string& directory) {
  std::vector<Outcome> outcomes;
  for (size_t row = 0; row < plan.rows.size(); ++row) outcomes.push_back(outcome_of(plan, row, directory));
  const bool drops = plan.rows.front().baseline.has_value();

  std::string table = "# " + plan.title + "\n\n" + (plan.note.empty() ? "" : plan.note + "\n\n") + "|";
  for (const std::string& axis : plan.axes) table += " " + cell(axis) + " |";
  table += " runs | test top-1 (%) |";
  if (drops) table += " drop (points) |";
  table += " " + cell(plan.paper_says) + " | time per epoch (s) | peak memory (MB) |\n|";
  for (size_t i = 0; i < plan.axes.size() + (drops ? 6 : 5); ++i) table += "---|";
  table += "\n";

  Json rows = Json::array();
  std::vector<Bar> bars;
  std::vector<Series> curves;
  std::string failures, left_out;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    const Outcome& outcome = outcomes[row];
    table += "|";
    for (const std::string& label : plan.rows[row].labels) table += " " + cell(label) + " |";
    table += fmt::format(
        " {}/{} | {} |", outcome.top1.size(), outcome.planned,
        outcome.top1.empty() && !outcome.failures.empty() ? "failed" : with_deviation(outcome.top1, "{:.2f}"));
    Json json = {{"labels", plan.rows[row].labels},
                 {"planned", outcome.planned},
                 {"top1", outcome.top1},
                 {"epoch_seconds", outcome.epoch_seconds},
                 {"peak_memory_megabytes", outcome.peak_megabytes},
                 {"paper", plan.rows[row].paper},
                 {"failures", outcome.failures},
                 {"left_out", outcome.left_out}};
    Bar bar{.name = plan.rows[row].name(), .failed = !outcome.failures.empty()};
    // A published accuracy is drawn beside ours; other figures (seconds) stand in the table alone.
    double published = 0;
    const std::string& paper = plan.rows[row].paper;
    const bool number = std::from_chars(paper.data(), paper.data() + paper.size(), published).ec == std::errc();
    if (number && std::isfinite(published) && plan.paper_says.find('%') != std::string::npos) bar.reference = published;
    if (!outcome.top1.empty()) {
      const Summary summary = summary_of(outcome.top1);
      bar.value = summary.mean, bar.deviation = summary.deviation;
      json["mean"] = summary.mean, json["deviation"] = summary.deviation;
    }
    if (drops) {
      const Outcome& baseline = outcomes[*plan.rows[row].baseline];
      const bool known = !outcome.top1.empty() && !baseline.top1.empty() && *plan.rows[row].baseline != row;
      const double drop = known ? summary_of(baseline.top1).mean - summary_of(outcome.top1).mean : 0;
      table += known ? fmt::format(" {:.2f}", drop) : " -";
      if (known) json["drop"] = drop;
      if (const auto error = standard_error(outcome.top1, baseline.top1); known && error) {
        table += fmt::format(" ± {:.2f}", *error);
        json["drop_standard_error"] = *error;
      }
      table += " |";
    }
    table +=
        fmt::format(" {} | {} | {} |\n", plan.rows[row].paper.empty() ? "-" : cell(plan.rows[row].paper),
                    with_deviation(outcome.epoch_seconds, "{:.1f}"), with_deviation(outcome.peak_megabytes, "{:.0f}"));
    for (const std::string& failure : outcome.failures) failures += "- " + failure + "\n";
    for (const std::string& run : outcome.left_out) left_out += "- " + run + "\n";
    bars.push_back(std::move(bar));
    if (Series curve = mean_curve(plan.rows[row].name(), outcome.curves); !curve.x.empty())
      curves.push_back(std::move(curve));
    rows.push_back(std::move(json));
  }
  std::map<std::string, int> commits;
  for (const Outcome& outcome : outcomes)
    for (const std::string& commit : outcome.commits) ++commits[commit];
  table += fmt::format("\nAccuracies: mean and deviation over seeds.{} `{}`: the published value.",
                       drops ? " Drops: differences of means and their standard errors." : "", plan.paper_says);
  std::string before = " Runs by commit: ";
  for (const auto& [commit, runs] : commits)
    table += fmt::format("{}{} of {}", std::exchange(before, ", "), runs, commit);
  table += commits.empty() ? "\n" : ".\n";
  if (!failures.empty()) table += "\nFailed runs:\n\n" + failures;
  if (!left_out.empty()) table += "\nLeft out, trained with other settings:\n\n" + left_out;
  table += "\n![accuracy](accuracy.svg)\n\n![curves](curves.svg)\n";

  write_durably(directory + "/table.md", table);
  write_durably(directory + "/results.json",
                Json{{"title", plan.title}, {"axes", plan.axes}, {"rows", rows}, {"commits", commits}}.dump(2) + "\n");
  write_durably(directory + "/accuracy.svg",
                bar_chart({.title = plan.title, .x_label = "test top-1 (%)"}, bars, plan.paper_says));
  write_durably(directory + "/curves.svg",
                line_chart({.title = "Test accuracy", .x_label = "step", .y_label = "top-1 (%)"}, curves));
}

}  // namespace octet
