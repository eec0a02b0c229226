#include "src/report/study_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/report/metric_display.h"
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

// A run that finished or failed.
struct Tried {
  int64_t seed = 0;
  std::optional<Result> result;           // absent: it failed
  std::map<std::string, Series> metrics;  // as recorded: by "test/top1" ...
};

struct Row {
  size_t planned = 0;  // number of runs
  std::vector<Tried> runs;
  std::vector<std::string> failures, left_out;  // a line for each such run
};

struct Study {
  const StudyPlan& plan;
  std::vector<Row> rows;
  MetricDisplay metric;  // the metric that runs are compared by: the first in their results
  bool drops() const { return plan.rows.front().baseline.has_value(); }
};

// Adds a run, as its directory shows it, to its row.
void add_run(Row& row, const StudyPlan& plan, const StudyRun& run, const std::string& path) {
  ++row.planned;
  if (const std::string changed = changed_since(plan, run, path); !changed.empty()) {
    row.left_out.push_back(run.name + ": " + changed);
    return;
  }
  Tried tried{run.seed, read_result(path), {}};
  if (!tried.result) {
    std::ifstream failed(path + "/failed.txt");
    std::string reason;
    if (!std::getline(failed, reason)) return;  // not begun, or not finished
    row.failures.push_back(run.name + ": " + reason);
  }
  if (std::filesystem::exists(path + "/metrics.jsonl")) tried.metrics = read_records(path).metrics;
  row.runs.push_back(std::move(tried));
}

Study read_runs(const StudyPlan& plan, const std::string& directory) {
  Study study{plan, std::vector<Row>(plan.rows.size()), display_of("top1")};
  for (const StudyRun& run : plan.runs) add_run(study.rows[run.row], plan, run, directory + "/" + run.name);
  for (const Row& row : study.rows)
    for (const Tried& run : row.runs)
      if (run.result && !run.result->metrics.empty()) study.metric = display_of(run.result->metrics.front().name);
  return study;
}

// What a function says about the result of each finished run.
template <class Function>
auto of_finished(const Row& row, Function function) {
  std::vector<decltype(function(Tried()))> values;
  for (const Tried& run : row.runs)
    if (run.result) values.push_back(function(run));
  return values;
}

// The metric of each finished run, in its unit.
std::vector<double> values_of(const Row& row, const MetricDisplay& metric) {
  return of_finished(row, [&](const Tried& run) {
    const auto value = std::ranges::find(run.result->metrics, metric.name, &Scalar::name);
    return value == run.result->metrics.end() ? NAN : metric.factor() * value->value;
  });
}
std::vector<int64_t> seeds_of(const Row& row) {
  return of_finished(row, [](const Tried& run) { return run.seed; });
}
std::vector<double> epoch_seconds_of(const Row& row) {
  auto seconds = of_finished(
      row, [](const Tried& run) { return double(run.result->images_per_epoch) / run.result->images_per_second; });
  std::erase_if(seconds, [](double value) { return !std::isfinite(value); });  // resumed after its last step
  return seconds;
}
std::vector<double> peak_megabytes_of(const Row& row) {
  return of_finished(row, [](const Tried& run) { return double(run.result->peak_memory_bytes) / 1e6; });
}
std::string machine_of(const Result& result) {
  return result.backend + " " + result.isa + (result.threads > 0 ? say(", threads: ", result.threads) : "");
}

// The mean over seeds with their deviation, at the steps that all of them have. Where every run failed, of those.
Series mean_curve(const std::string& name, const Row& row, const MetricDisplay& metric) {
  const bool finished = !seeds_of(row).empty();
  Series mean{.name = name, .x = {}, .y = {}};
  std::map<double, std::vector<double>> by_step;
  size_t curves = 0;
  for (const Tried& run : row.runs) {
    const auto curve = run.metrics.find("test/" + metric.name);
    if (curve == run.metrics.end() || run.result.has_value() != finished) continue;
    ++curves;
    for (size_t i = 0; i < curve->second.x.size(); ++i)
      by_step[curve->second.x[i]].push_back(metric.factor() * curve->second.y[i]);
  }
  for (const auto& [step, values] : by_step) {
    if (values.size() < curves) continue;
    const Summary summary = summary_of(values);
    mean.x.push_back(step);
    mean.y.push_back(summary.mean);
    if (curves > 1) mean.deviation.push_back(summary.deviation);
  }
  return mean;
}

struct Drop {
  double points = 0;
  size_t seeds = 0;
  std::optional<double> standard_error;  // absent for single runs
};

// The drop from the baseline to the row: the difference of their means over the seeds that both have.
std::optional<Drop> drop_of(const Row& row, const Row& baseline, const MetricDisplay& metric) {
  const std::vector<double> ours_all = values_of(row, metric), theirs_all = values_of(baseline, metric);
  const std::vector<int64_t> seeds = seeds_of(row), baseline_seeds = seeds_of(baseline);
  std::vector<double> a, b;
  for (size_t i = 0; i < seeds.size(); ++i)
    for (size_t j = 0; j < baseline_seeds.size(); ++j)
      if (seeds[i] == baseline_seeds[j]) a.push_back(ours_all[i]), b.push_back(theirs_all[j]);
  if (a.empty()) return {};
  const Summary ours = summary_of(a), theirs = summary_of(b);
  Drop drop{.points = theirs.mean - ours.mean, .seeds = a.size(), .standard_error = {}};
  const double variance = ours.deviation * ours.deviation + theirs.deviation * theirs.deviation;
  if (a.size() > 1) drop.standard_error = std::sqrt(variance / double(a.size()));
  return drop;
}

// " Runs by commit: 3 of a; 1 of b.", from a word about each result. Empty: fewer than `least` different words.
template <class Word>
std::string counted(const Study& study, Word word, const char* before, const char* of, size_t least, Json& json) {
  std::map<std::string, int> counts;
  for (const Row& row : study.rows)
    for (const std::string& one : of_finished(row, [&](const Tried& run) { return std::string(word(*run.result)); }))
      if (!one.empty()) ++counts[one];
  json = counts;
  if (counts.size() < least) return {};
  std::vector<std::string> parts;
  for (const auto& [name, runs] : counts) parts.push_back(fmt::format("{} {} {}", runs, of, name));
  return fmt::format(" {}: {}.", before, joined(parts, "; "));
}

// The text of a cell of a Markdown table.
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

std::string head_of(const Study& study) {
  const StudyPlan& plan = study.plan;
  std::string head = "# " + plan.title + "\n\n" + (plan.note.empty() ? "" : plan.note + "\n\n") + "|";
  for (const std::string& axis : plan.axes) head += " " + cell(axis) + " |";
  head += fmt::format(" runs | test {} |{} {} | time per epoch (s) | peak memory (MB) |\n|", study.metric.with_unit(),
                      study.drops() ? " drop (points) |" : "", cell(plan.paper_says));
  for (size_t i = 0; i < plan.axes.size() + (study.drops() ? 6 : 5); ++i) head += "---|";
  return head + "\n";
}

std::string drop_cell(const Study& study, size_t at, size_t seeds, Json& json) {
  const size_t baseline = *study.plan.rows[at].baseline;
  if (baseline == at) return " - |";
  const std::optional<Drop> drop = drop_of(study.rows[at], study.rows[baseline], study.metric);
  if (!drop) return " - |";
  json["drop"] = drop->points;
  std::string text = fmt::format(" {:.2f}", drop->points);
  if (drop->standard_error) {
    json["drop_standard_error"] = *drop->standard_error;
    text += fmt::format(" ± {:.2f}", *drop->standard_error);
  }
  if (drop->seeds < seeds) text += fmt::format(" ({} seed{})", drop->seeds, drop->seeds == 1 ? "" : "s");
  return text + " |";
}

// A line of the table, and the same in JSON.
std::string row_of(const Study& study, size_t at, Json& json) {
  const StudyRow& planned = study.plan.rows[at];
  const Row& row = study.rows[at];
  const std::vector<double> values = values_of(row, study.metric), seconds = epoch_seconds_of(row),
                            megabytes = peak_megabytes_of(row);
  json = {{"labels", planned.labels},  {"planned", row.planned},   {"seeds", seeds_of(row)},
          {study.metric.name, values}, {"epoch_seconds", seconds}, {"peak_memory_megabytes", megabytes},
          {"paper", planned.paper},    {"failures", row.failures}, {"left_out", row.left_out}};
  if (!values.empty()) json["mean"] = summary_of(values).mean;
  if (values.size() > 1) json["deviation"] = summary_of(values).deviation;
  std::string line = "|";
  for (const std::string& label : planned.labels) line += " " + cell(label) + " |";
  line += fmt::format(" {}/{} | {} |", values.size(), row.planned,
                      values.empty() && !row.failures.empty() ? "failed" : with_deviation(values, "{:.2f}"));
  if (study.drops()) line += drop_cell(study, at, values.size(), json);
  return line + fmt::format(" {} | {} | {} |\n", planned.paper.empty() ? "-" : cell(planned.paper),
                            with_deviation(seconds, "{:.1f}"), with_deviation(megabytes, "{:.0f}"));
}

// The text below the table. json: gets the same counts.
std::string foot_of(const Study& study, Json& json) {
  std::string text = fmt::format(
      "\nTest results: mean and deviation over seeds.{} `{}`: the published value.",
      study.drops() ? " Drops: differences of means over the seeds that both rows have, and their standard errors."
                    : "",
      study.plan.paper_says);
  text += counted(study, std::mem_fn(&Result::commit), "Runs by commit", "of", 1, json["commits"]);
  text += counted(study, machine_of, "Times", "on", 1, json["machines"]);
  text += counted(study, std::mem_fn(&Result::data), "Runs by data", "of", 2, json["data"]) + "\n";
  const auto list = [&](std::vector<std::string> Row::*lines, const char* title) {
    std::string items;
    for (const Row& row : study.rows)
      for (const std::string& line : row.*lines) items += "- " + line + "\n";
    if (!items.empty()) text += fmt::format("\n{}:\n\n{}", title, items);
  };
  list(&Row::failures, "Failed runs");
  list(&Row::left_out, "Left out, trained with other settings");
  return text + "\n![accuracy](accuracy.svg)\n\n![curves](curves.svg)\n";
}

Bar bar_of(const Study& study, size_t at) {
  const StudyRow& planned = study.plan.rows[at];
  const std::vector<double> values = values_of(study.rows[at], study.metric);
  Bar bar{.name = planned.name(), .failed = study.rows[at].failures.size()};
  // A published accuracy is drawn beside ours. Other figures, such as seconds, are in the table only.
  double published = 0;
  const char *first = planned.paper.data(), *last = first + planned.paper.size();
  const bool number = std::from_chars(first, last, published).ec == std::errc();
  if (number && std::isfinite(published) && study.plan.paper_says.find('%') != std::string::npos)
    bar.reference = published;
  const Summary summary = summary_of(values);
  if (!values.empty()) bar.value = summary.mean, bar.deviation = summary.deviation;
  return bar;
}

}  // namespace

void write_study_table(const StudyPlan& plan, const std::string& directory) {
  const Study study = read_runs(plan, directory);
  std::string table = head_of(study);
  Json json = {{"title", plan.title}, {"axes", plan.axes}, {"rows", Json::array()}};
  std::vector<Bar> bars;
  std::vector<Series> curves;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    table += row_of(study, row, json["rows"].emplace_back());
    bars.push_back(bar_of(study, row));
    curves.push_back(mean_curve(plan.rows[row].name(), study.rows[row], study.metric));
  }
  table += foot_of(study, json);
  write_durably(directory + "/table.md", table);
  write_durably(directory + "/results.json",  // a file's name in a message need not be UTF-8
                json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  const std::string unit = study.metric.with_unit();
  write_durably(directory + "/accuracy.svg",
                bar_chart({.title = plan.title, .x_label = "test " + unit}, bars, plan.paper_says));
  write_durably(directory + "/curves.svg",
                line_chart({.title = study.metric.title, .x_label = "step", .y_label = unit}, curves));
}

}  // namespace octet
