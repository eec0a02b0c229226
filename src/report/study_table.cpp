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
#include "src/train/result.h"

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
  std::vector<int64_t> seeds;  // of the finished runs, as are
  std::vector<double> top1, epoch_seconds, peak_megabytes;
  std::vector<std::string> commits, machines, data;
  std::vector<Series> curves, failed_curves;  // test top-1, percent
  std::vector<std::string> failures, left_out;
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
    const std::optional<Result> result = read_result(path.string());
    if (!result) {
      std::ifstream failed(path / "failed.txt");
      std::string reason;
      if (!std::getline(failed, reason)) continue;  // to do, or on its way
      outcome.failures.push_back(run.name + ": " + reason);
    } else {
      outcome.seeds.push_back(run.seed);
      outcome.top1.push_back(100 * result->figure("top1"));
      outcome.peak_megabytes.push_back(double(result->peak_memory_bytes) / 1e6);
      if (result->images_per_second > 0)
        outcome.epoch_seconds.push_back(double(result->images_per_epoch) / result->images_per_second);
      outcome.commits.push_back(result->commit);
      outcome.machines.push_back(fmt::format("{} {}", result->backend, result->isa) +
                                 (result->threads > 0 ? fmt::format(", threads: {}", result->threads) : ""));
      if (!result->data.empty()) outcome.data.push_back(result->data);
    }
    if (!std::filesystem::exists(path / "metrics.jsonl")) continue;
    const RunRecords records = read_records(path.string());
    if (const auto found = records.metrics.find("test/top1"); found != records.metrics.end()) {
      Series curve = found->second;
      for (double& value : curve.y) value *= 100;
      (result ? outcome.curves : outcome.failed_curves).push_back(std::move(curve));
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

struct Drop {
  double points = 0;
  size_t seeds = 0;
  std::optional<double> standard_error;  // none of single runs
};

// Of the means over the seeds that both have.
std::optional<Drop> drop_of(const Outcome& row, const Outcome& baseline) {
  std::vector<double> a, b;
  for (size_t i = 0; i < row.seeds.size(); ++i)
    for (size_t j = 0; j < baseline.seeds.size(); ++j)
      if (row.seeds[i] == baseline.seeds[j]) a.push_back(row.top1[i]), b.push_back(baseline.top1[j]);
  if (a.empty()) return {};
  const Summary ours = summary_of(a), theirs = summary_of(b);
  Drop drop{.points = theirs.mean - ours.mean, .seeds = a.size(), .standard_error = {}};
  const double variance = ours.deviation * ours.deviation + theirs.deviation * theirs.deviation;
  if (a.size() > 1) drop.standard_error = std::sqrt(variance / double(a.size()));
  return drop;
}

// "3 of a; 1 of b".
std::string counted(const std::map<std::string, int>& counts, const char* of) {
  std::string text;
  for (const auto& [name, runs] : counts) text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", runs, of, name);
  return text;
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
                 {"seeds", outcome.seeds},
                 {"top1", outcome.top1},
                 {"epoch_seconds", outcome.epoch_seconds},
                 {"peak_memory_megabytes", outcome.peak_megabytes},
                 {"paper", plan.rows[row].paper},
                 {"failures", outcome.failures},
                 {"left_out", outcome.left_out}};
    Bar bar{.name = plan.rows[row].name(), .failed = outcome.failures.size()};
    // A published accuracy is drawn beside ours; other figures (seconds) stand in the table alone.
    double published = 0;
    const std::string& paper = plan.rows[row].paper;
    const bool number = std::from_chars(paper.data(), paper.data() + paper.size(), published).ec == std::errc();
    if (number && std::isfinite(published) && plan.paper_says.find('%') != std::string::npos) bar.reference = published;
    if (!outcome.top1.empty()) {
      const Summary summary = summary_of(outcome.top1);
      bar.value = summary.mean, bar.deviation = summary.deviation;
      json["mean"] = summary.mean;
      if (outcome.top1.size() > 1) json["deviation"] = summary.deviation;
    }
    if (drops) {
      const size_t baseline = *plan.rows[row].baseline;
      const std::optional<Drop> drop = baseline == row ? std::nullopt : drop_of(outcome, outcomes[baseline]);
      table += drop ? fmt::format(" {:.2f}", drop->points) : " -";
      if (drop) json["drop"] = drop->points;
      if (drop && drop->standard_error) {
        table += fmt::format(" ± {:.2f}", *drop->standard_error);
        json["drop_standard_error"] = *drop->standard_error;
      }
      if (drop && drop->seeds < outcome.seeds.size())
        table += fmt::format(" ({} seed{})", drop->seeds, drop->seeds == 1 ? "" : "s");
      table += " |";
    }
    table +=
        fmt::format(" {} | {} | {} |\n", plan.rows[row].paper.empty() ? "-" : cell(plan.rows[row].paper),
                    with_deviation(outcome.epoch_seconds, "{:.1f}"), with_deviation(outcome.peak_megabytes, "{:.0f}"));
    for (const std::string& failure : outcome.failures) failures += "- " + failure + "\n";
    for (const std::string& run : outcome.left_out) left_out += "- " + run + "\n";
    bars.push_back(std::move(bar));
    // What diverged shows how, where nothing else is to show.
    curves.push_back(
        mean_curve(plan.rows[row].name(), outcome.curves.empty() ? outcome.failed_curves : outcome.curves));
    rows.push_back(std::move(json));
  }
  std::map<std::string, int> commits, machines, data;
  for (const Outcome& outcome : outcomes) {
    for (const std::string& commit : outcome.commits) ++commits[commit];
    for (const std::string& machine : outcome.machines) ++machines[machine];
    for (const std::string& fingerprint : outcome.data) ++data[fingerprint];
  }
  table += fmt::format(
      "\nAccuracies: mean and deviation over seeds.{} `{}`: the published value.",
      drops ? " Drops: differences of means over the seeds that both rows have, and their standard errors." : "",
      plan.paper_says);
  if (!commits.empty()) table += " Runs by commit: " + counted(commits, "of") + ".";
  if (!machines.empty()) table += " Times: " + counted(machines, "on") + ".";
  if (data.size() > 1) table += " Runs by data: " + counted(data, "of") + ".";
  table += "\n";
  if (!failures.empty()) table += "\nFailed runs:\n\n" + failures;
  if (!left_out.empty()) table += "\nLeft out, trained with other settings:\n\n" + left_out;
  table += "\n![accuracy](accuracy.svg)\n\n![curves](curves.svg)\n";

  write_durably(directory + "/table.md", table);
  write_durably(directory + "/results.json",
                Json{{"title", plan.title},
                     {"axes", plan.axes},
                     {"rows", rows},
                     {"commits", commits},
                     {"machines", machines},
                     {"data", data}}
                        .dump(2, ' ', false, Json::error_handler_t::replace) +  // a file's name need not be UTF-8
                    "\n");
  write_durably(directory + "/accuracy.svg",
                bar_chart({.title = plan.title, .x_label = "test top-1 (%)"}, bars, plan.paper_says));
  write_durably(directory + "/curves.svg",
                line_chart({.title = "Test accuracy", .x_label = "step", .y_label = "top-1 (%)"}, curves));
}

}  // namespace octet
