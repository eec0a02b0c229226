#include "src/report/inspect/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "kernels/base/text.h"
#include "src/config/config.h"
#include "src/report/inspect/run_facts.h"
#include "src/report/inspect/sections.h"
#include "src/report/page.h"
#include "src/report/records.h"
#include "src/run/result.h"
#include "src/tasks/classification/class_answers.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

// The sentence below the title: what was trained on what, how, by which build.
std::string description(const RunFacts& run) {
  std::string text = "A training run of octet";
  if (run.result && !run.result->commit.empty()) text += " (commit " + run.result->commit + ")";
  if (run.config)
    text += fmt::format(": {} on {}, policy {}, seed {}", run.config->model.name, run.config->data.name,
                        run.config->policy.name, run.config->seed);
  return text + ".";
}

// "2026-11-29 09:33 UTC"
std::string date_text(double seconds_since_1970) {
  if (seconds_since_1970 <= 0) return {};
  const auto time = static_cast<std::time_t>(std::min(seconds_since_1970, 2.5e11));
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

// The first line of config.yaml: how the training was started.
std::string command_in(const std::string& yaml) {
  return yaml.starts_with("# ") ? yaml.substr(2, yaml.find('\n') - 2) : "";
}

std::string tiles_of_result(const Result& result) {
  std::string html;
  for (const Scalar& metric : result.metrics)
    if (const MetricDisplay display = display_of(metric.name); display.main)
      html += tile(display.text(metric.value), "test " + display.label);
  if (result.best) {
    const Scalar& judge = result.best->figures.front();
    const MetricDisplay display = display_of(judge.name);
    html += tile(display.text(judge.value), fmt::format("best test {}, epoch {}", display.label, result.best->epoch));
  }
  return html;
}

int64_t class_count(const RunFacts& run) {
  if (run.answers && !run.answers->classes.empty()) return static_cast<int64_t>(run.answers->classes.size());
  if (run.config && run.config->model.classes > 0) return run.config->model.classes;
  return run.result ? static_cast<int64_t>(run.result->by_class.size()) : 0;
}

std::string tiles(const RunFacts& run) {
  const auto& [name, records, result, config, answers] = run;
  std::string html =
      result ? tiles_of_result(*result) : tile(std::to_string(records.steps), "steps so far: the run is not finished");
  if (config) html += tile(config->data.name, "data set");
  if (const int64_t classes = class_count(run); classes > 0) html += tile(std::to_string(classes), "classes");
  if (result) html += tile(std::to_string(result->epochs), "epochs");
  if (result) html += tile(std::to_string(result->steps), "steps");
  if (const double seconds = records.train_seconds(); seconds > 0)
    html += tile(duration_text(seconds), "training time, without tests");
  if (!result) return "<div class=\"tiles\">" + html + "</div>\n";
  if (result->images_per_second) html += tile(fmt::format("{:.0f}", *result->images_per_second), "images per second");
  html += tile(fmt::format("{:.0f} MB", static_cast<double>(result->peak_memory_bytes) / 1e6), "peak memory of rank 0");
  html += tile(std::to_string(result->ranks), "ranks");
  return "<div class=\"tiles\">" + html + "</div>\n";
}

}  // namespace

std::string inspect_page(const std::string& directory, const std::vector<std::string>& overrides) {
  const RunFacts run = read_run(directory, overrides);
  const std::string yaml = read_if_there(directory + "/config.yaml", 1 << 20);
  std::string html = facts({{"begun", date_text(run.records.begun)},
                            {"last record", date_text(run.records.ended)},
                            {run.records.hosts.size() > 1 ? "hosts" : "host", joined(run.records.hosts, ", ")},
                            {"command", command_in(yaml)}}) +
                     tiles(run) + curve_section(run.records, run.result);
  if (run.answers) html += class_sections(*run.answers, run.config ? &*run.config : nullptr);
  html += detection_sections(directory, run.result, overrides) + layer_sections(run.records);
  html += "<details><summary>Configuration</summary><pre>" + escaped(yaml) + "</pre></details>";
  return html_page(run.name, description(run), html);
}

}  // namespace octet
