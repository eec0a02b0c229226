#include "src/report/study/study_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "src/report/records.h"
#include "src/run/result.h"
#include "src/tasks/metric_display.h"

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

// The runs of a row. Lists of numbers and words have an entry for each finished run.
struct Outcome {
  std::vector<int64_t> seeds;
  std::vector<double> values, epoch_seconds, peak_megabytes;  // values: of the metric, in its unit
  std::vector<std::string> commits, machines, data;
  std::vector<Series> curves, failed_curves;  // the metric on the test set, in its unit
  std::vector<std::string> failures, left_out;
  size_t planned = 0;
};

struct Study {
  const StudyPlan& plan;
  MetricDisplay metric;  // the metric that runs are compared by: the first in their results
  std::vector<Outcome> rows;
  bool drops() const { return plan.rows.front().baseline.has_value(); }
};

// Adds a run, as its directory shows it, to its row.
void add_run(Study& study, const StudyRun& run, const std::string& path) {
  Outcome& outcome = study.rows[run.row];
  ++outcome.planned;
  if (const std::string changed = changed_since(study.plan, run, path); !changed.empty()) {
    outcome.left_out.push_back(run.name + ": " + changed);
    return;
  }
  const std::optional<Result> result = read_result(path);
  if (!result) {
    const std::string failed = read_if_there(path + "/failed.txt", 1 << 20),
                      reason = failed.substr(0, failed.find('\n'));
    if (failed.empty()) return;  // not begun, or not finished
    outcome.failures.push_back(run.name + ": " + reason);
  } else {
    if (!result->metrics.empty()) study.metric = display_of(result->metrics[0].name);
    outcome.seeds.push_back(run.seed);
    outcome.values.push_back(result->metrics.empty() ? NAN : study.metric.factor() * result->metrics[0].value);
    outcome.peak_megabytes.push_back(double(result->peak_memory_bytes) / 1e6);
    if (result->images_per_second > 0)  // an empty one is less than any number
      outcome.epoch_seconds.push_back(double(result->images_per_epoch) / *result->images_per_second);
    outcome.commits.push_back(result->commit);
    outcome.machines.push_back(result->backend + " " + result->isa +
                               (result->threads > 0 ? say(", threads: ", result->threads) : ""));
    if (!result->data.empty()) outcome.data.push_back(result->data);
  }
  if (!std::filesystem::exists(path + "/metrics.jsonl")) return;
  const RunRecords records = read_records(path);
  if (const auto found = records.metrics.find("test/" + study.metric.name); found != records.metrics.end())
    (result ? outcome.curves : outcome.failed_curves).push_back(found->second.scaled(study.metric.factor()));
}

// The mean over seeds with their deviation, at the steps that all of them have.
Series mean_curve(const std::string& name, const std::vector<Series>& curves) {
  Series mean{.name = name};
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

// " Runs by commit: 3 of a; 1 of b.", from the words of all rows. Empty: fewer than `least` different words.
std::string counted(const Study& study, std::vector<std::string> Outcome::*words, const char* before, const char* of,
                    size_t least, Json& json) {
  std::map<std::string, int> counts;
  for (const Outcome& row : study.rows)
    for (const std::string& word : row.*words) ++counts[word];
  json = counts;
  if (counts.size() < least) return {};
  std::vector<std::string> parts;
  for (const auto& [name, runs] : counts) parts.push_back(fmt::format("{} {} {}", runs, of, name));
  return fmt::format(" {}: {}.", before, joined(parts, "; "));
}

// The text of a cell of a Markdown table.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : printable(text)) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string with_deviation(const std::vector<double>& values, const char* format_of_mean) {
  if (values.empty()) return "-";
  const Summary summary = summary_of(values);
  std::string text = fmt::format(fmt::runtime(format_of_mean), summary.mean);
  if (values.size() > 1) text += fmt::format(" ± {}", fmt::format(fmt::runtime(format_of_mean), summary.deviation));
  return text;
}

std::vector<std::string> head_of(const Study& study) {
  std::vector<std::string> head = study.plan.axes;
  head.insert(head.end(), {"runs", "test " + study.metric.with_unit()});
  if (study.drops()) head.emplace_back("drop (points)");
  head.insert(head.end(), {study.plan.paper_says, "time per epoch (s)", "peak memory (MB)"});
  return head;
}

// The drop from the baseline to the row: the difference of their means over the seeds that both have.
std::string drop_cell(const Study& study, size_t at, Json& json) {
  const Outcome &row = study.rows[at], &baseline = study.rows[*study.plan.rows[at].baseline];
  if (&row == &baseline) return "-";
  std::vector<double> a, b;
  for (size_t i = 0; i < row.seeds.size(); ++i)
    for (size_t j = 0; j < baseline.seeds.size(); ++j)
      if (row.seeds[i] == baseline.seeds[j]) a.push_back(row.values[i]), b.push_back(baseline.values[j]);
  if (a.empty()) return "-";
  const Summary ours = summary_of(a), theirs = summary_of(b);
  const double drop = theirs.mean - ours.mean;
  json["drop"] = drop;
  std::string text = fmt::format("{:.2f}", drop);
  if (a.size() > 1) {
    const double variance = ours.deviation * ours.deviation + theirs.deviation * theirs.deviation;
    const double standard_error = std::sqrt(variance / double(a.size()));
    json["drop_standard_error"] = standard_error;
    text += fmt::format(" ± {:.2f}", standard_error);
  }
  if (a.size() < row.values.size()) text += fmt::format(" ({} seed{})", a.size(), a.size() == 1 ? "" : "s");
  return text;
}

// A row of the table, and the same in JSON.
std::vector<std::string> row_of(const Study& study, size_t at, Json& json) {
  const StudyRow& planned = study.plan.rows[at];
  const Outcome& row = study.rows[at];
  const std::vector<double>& values = row.values;
  json = {{"labels", planned.labels},
          {"planned", row.planned},
          {"seeds", row.seeds},
          {study.metric.name, values},
          {"epoch_seconds", row.epoch_seconds},
          {"peak_memory_megabytes", row.peak_megabytes},
          {"paper", planned.paper},
          {"failures", row.failures},
          {"left_out", row.left_out}};
  if (!values.empty()) json["mean"] = summary_of(values).mean;
  if (values.size() > 1) json["deviation"] = summary_of(values).deviation;
  std::vector<std::string> cells = planned.labels;
  cells.push_back(fmt::format("{}/{}", values.size(), row.planned));
  cells.push_back(values.empty() && !row.failures.empty() ? "failed" : with_deviation(values, "{:.2f}"));
  if (study.drops()) cells.push_back(drop_cell(study, at, json));
  cells.insert(cells.end(), {planned.paper.empty() ? "-" : planned.paper, with_deviation(row.epoch_seconds, "{:.1f}"),
                             with_deviation(row.peak_megabytes, "{:.0f}")});
  return cells;
}

// A column of dashes alone says nothing.
void leave_out_empty_columns(StudyOutcome& outcome) {
  for (size_t column = outcome.head.size(); column-- > 0;) {
    const auto is_dash = [&](const std::vector<std::string>& row) { return row[column] == "-"; };
    if (!std::ranges::all_of(outcome.rows, is_dash)) continue;
    const auto place = static_cast<ptrdiff_t>(column);
    outcome.head.erase(outcome.head.begin() + place);
    for (std::vector<std::string>& row : outcome.rows) row.erase(row.begin() + place);
  }
}

// The sentences below the table. json: gets the same counts.
std::string foot_of(const Study& study, Json& json) {
  std::string text = "Test results: mean and deviation over seeds.";
  if (study.drops())
    text += " Drops: differences of means over the seeds that both rows have, and their standard errors.";
  const bool published = std::ranges::any_of(study.plan.rows, [](const StudyRow& row) { return !row.paper.empty(); });
  if (published) text += fmt::format(" `{}`: the published value.", study.plan.paper_says);
  text += counted(study, &Outcome::commits, "Runs by commit", "of", 1, json["commits"]);
  text += counted(study, &Outcome::machines, "Times", "on", 1, json["machines"]);
  return text + counted(study, &Outcome::data, "Runs by data", "of", 2, json["data"]);
}

std::vector<StudyOutcome::List> lists_of(const Study& study) {
  StudyOutcome::List failed{"Failed runs", {}}, left_out{"Left out, trained with other settings", {}};
  for (const Outcome& row : study.rows) {
    failed.items.insert(failed.items.end(), row.failures.begin(), row.failures.end());
    left_out.items.insert(left_out.items.end(), row.left_out.begin(), row.left_out.end());
  }
  std::vector<StudyOutcome::List> lists;
  for (const StudyOutcome::List& list : {failed, left_out})
    if (!list.items.empty()) lists.push_back(list);
  return lists;
}

// Whole lines; other control characters are shown.
std::string lines_of(const std::string& text) {
  std::string lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines += printable(line) + "\n";
  return lines;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& text : cells) line += " " + cell(text) + " |";
  return line + "\n";
}

std::string markdown_of(const StudyPlan& plan, const StudyOutcome& outcome) {
  std::string text = "# " + printable(plan.title) + "\n\n" + (plan.note.empty() ? "" : lines_of(plan.note) + "\n");
  text += markdown_row(outcome.head) + "|";
  for (size_t i = 0; i < outcome.head.size(); ++i) text += "---|";
  text += "\n";
  for (const std::vector<std::string>& row : outcome.rows) text += markdown_row(row);
  text += "\n" + printable(outcome.sentence) + "\n";
  for (const StudyOutcome::List& list : outcome.lists) {
    text += "\n" + list.title + ":\n\n";
    for (const std::string& item : list.items) text += "- " + printable(item) + "\n";
  }
  return text + "\n![accuracy](accuracy.svg)\n\n![curves](curves.svg)\n";
}

Bar bar_of(const Study& study, size_t at) {
  const StudyRow& planned = study.plan.rows[at];
  const Outcome& row = study.rows[at];
  Bar bar{.name = planned.name(), .failed = row.failures.size()};
  // A published accuracy is drawn beside ours. Other figures, such as seconds, are in the table only.
  double published = 0;
  const char *first = planned.paper.data(), *last = first + planned.paper.size();
  const bool number = std::from_chars(first, last, published).ec == std::errc();
  if (number && std::isfinite(published) && study.plan.paper_says.find('%') != std::string::npos)
    bar.reference = published;
  const Summary summary = summary_of(row.values);
  if (!row.values.empty()) bar.value = summary.mean, bar.deviation = summary.deviation;
  return bar;
}

}  // namespace

void write_study_table(const StudyPlan& plan, const std::string& directory) {
  Study study{plan, display_of("top1"), std::vector<Outcome>(plan.rows.size())};  // top-1 before there is a result
  for (const StudyRun& run : plan.runs) add_run(study, run, directory + "/" + run.name);
  Json json = {{"title", plan.title}, {"axes", plan.axes}, {"rows", Json::array()}};
  StudyOutcome outcome{.head = head_of(study), .metric = study.metric.title, .unit = study.metric.with_unit()};
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    outcome.rows.push_back(row_of(study, row, json["rows"].emplace_back()));
    outcome.bars.push_back(bar_of(study, row));
    const Outcome& runs = study.rows[row];  // where every run failed, the curves show how
    outcome.curves.push_back(mean_curve(plan.rows[row].name(), runs.curves.empty() ? runs.failed_curves : runs.curves));
  }
  leave_out_empty_columns(outcome);
  outcome.sentence = foot_of(study, json);
  outcome.lists = lists_of(study);
  write_durably(directory + "/table.md", markdown_of(plan, outcome));
  write_durably(directory + "/results.json",  // a file's name in a message need not be UTF-8
                json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  write_durably(directory + "/accuracy.svg",
                bar_chart({.title = plan.title, .x_label = "test " + outcome.unit}, outcome.bars, plan.paper_says));
  write_durably(directory + "/curves.svg",
                line_chart({.title = outcome.metric, .x_label = "step", .y_label = outcome.unit}, outcome.curves));
  write_durably(directory + "/study.html", study_page(plan, outcome));
}

}  // namespace octet
