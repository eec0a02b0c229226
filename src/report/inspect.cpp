#include "src/report/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/base/durable_file.h"
#include "kernels/base/error.h"
#include "src/config/config.h"
#include "src/report/inspect_detection.h"
#include "src/report/records.h"
#include "src/tasks/metric_display.h"
#include "src/train/result.h"

namespace octet {
namespace {

constexpr const char* style = R"(
:root{--paper:#f8fafc;--card:#fff;--ink:#1e293b;--soft:#64748b;--grid:#e2e8f0;--accent:#2563eb}
@media(prefers-color-scheme:dark){:root{--paper:#0f172a;--card:#1e293b;--ink:#e2e8f0;--soft:#94a3b8;--grid:#334155;--accent:#60a5fa}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,'DejaVu Sans',sans-serif}
main{max-width:1240px;margin:0 auto;padding:32px 24px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:40px 0 4px}
p{margin:4px 0 14px;color:var(--soft);max-width:80ch}.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0}
.tile{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:12px 18px;min-width:128px}
.tile b{display:block;font-size:22px;font-weight:650}.tile span{color:var(--soft);font-size:13px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px}
.card{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px}
table{border-collapse:collapse;background:var(--card);font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--grid);padding:5px 14px;text-align:right}th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto;display:block}details{margin-top:32px}summary{cursor:pointer;color:var(--accent)}
.list{overflow:auto;max-height:470px}.list table{width:100%}.list th,.list td{border-width:0 0 1px;padding:5px 10px;white-space:nowrap}
.bar{width:40%;min-width:60px}.bar i{display:block;height:10px;border-radius:5px;background:var(--accent)}
figure{margin:0 0 16px}figcaption{color:var(--soft);font-size:13px;margin-bottom:8px;overflow-wrap:anywhere}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:12px}
.pair img{width:100%;height:auto;border-radius:6px}
pre{background:var(--card);border:1px solid var(--grid);border-radius:10px;padding:14px;overflow:auto;font-size:12.5px}
)";

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(value), escaped(name));
}
std::string card(const std::string& content) { return "<div class=\"card\">" + content + "</div>\n"; }

// A metric in training and on the test set, in one chart.
std::string curve(const RunRecords& records, const std::string& metric) {
  const MetricDisplay display = display_of(metric);
  std::vector<Series> series;
  for (const std::string kind : {"train", "test"}) {
    const auto found = records.metrics.find(kind + "/" + metric);
    if (found == records.metrics.end()) continue;
    series.push_back(found->second.scaled(display.factor()));
    series.back().name = kind;
  }
  if (series.empty() || !display.main) return {};
  return card(line_chart(
      {.title = display.title, .x_label = "step", .y_label = display.share ? "%" : "", .width = 600, .height = 320},
      series));
}

// The losses of which the loss is the sum.
std::string parts_of_loss(const RunRecords& records) {
  std::vector<Series> series;
  for (const auto& [name, values] : records.metrics) {
    if (!name.starts_with("train/loss_")) continue;
    series.push_back(values);
    series.back().name = display_of(name.substr(name.find('/') + 1)).label;
  }
  if (series.empty()) return {};
  return card(line_chart({.title = "Parts of the loss", .x_label = "step", .width = 600, .height = 320}, series));
}

// The loss, the other metrics of the test set, the learning rate and the speed.
std::string curves(const RunRecords& records) {
  std::string html = curve(records, "loss") + parts_of_loss(records);
  for (const auto& [name, series] : records.metrics)
    if (name.starts_with("test/") && name != "test/loss") html += curve(records, name.substr(name.find('/') + 1));
  return "<div class=\"two\">\n" + html + curve(records, "learning_rate") + curve(records, "images_per_second") +
         "</div>\n";
}

// The sentence below the title: what was trained on what, how, by which build.
std::string description(const std::string& directory, const std::optional<Result>& result) {
  std::string text = "A training run of octet";
  if (result && !result->commit.empty()) text += " (commit " + result->commit + ")";
  try {
    const Config config = load_config(directory + "/config.yaml", {});
    text += fmt::format(": {} on {}, policy {}, seed {}", config.model.name, config.data.name, config.policy.name,
                        config.seed);
  } catch (const UsageError&) {  // there is none, or another version wrote it; the page shows it unchanged
  }
  return text + ".";
}

std::string tiles(const RunRecords& records, const std::optional<Result>& result) {
  std::string html;
  if (result) {
    for (const Scalar& metric : result->metrics)
      if (const MetricDisplay display = display_of(metric.name); display.main)
        html += tile(display.text(metric.value), "test " + display.label);
    if (result->best) {
      const Scalar& judge = result->best->figures.front();
      const MetricDisplay display = display_of(judge.name);
      html +=
          tile(display.text(judge.value), fmt::format("best test {}, epoch {}", display.label, result->best->epoch));
    }
    if (result->images_per_second) html += tile(fmt::format("{:.0f}", *result->images_per_second), "images / s");
    html += tile(fmt::format("{:.0f} MB", double(result->peak_memory_bytes) / 1e6), "peak memory of rank 0");
    html += tile(std::to_string(result->steps), "steps");
    html += tile(std::to_string(result->ranks), "ranks");
  } else {
    html += tile(std::to_string(records.steps), "steps so far: the run is not finished");
  }
  return "<div class=\"tiles\">" + html + "</div>\n";
}

std::vector<Series> of_layers(const RunRecords& records, Series RunRecords::Layer::*member, double factor = 1) {
  std::vector<Series> series;
  for (const RunRecords::Layer& layer : records.layers) series.push_back((layer.*member).scaled(factor));
  return series;
}

std::string layers(const RunRecords& records) {
  if (records.layers.empty()) return {};
  using Layer = RunRecords::Layer;
  return "<h2>Clipping and learning rates, layer by layer</h2><p>One row or line for each quantized layer, from the "
         "input (dark) to the output (bright). Each column is an update of the clips: after steps 1, 2, 3, 5, 9 … and "
         "then once in a period. Point at a mark to read it.</p><div class=\"two\">\n" +
         card(heat_map({.title = "Cosine distance d_c of the clipped, quantized gradient (eq. 7)",
                        .y_label = "(log scale)",
                        .log_y = true,
                        .width = 600},
                       of_layers(records, &Layer::d_c))) +
         card(heat_map({.title = "Learning rate scale φ(d_c) (eq. 8)", .width = 600},
                       of_layers(records, &Layer::lr_scale))) +
         card(
             line_chart({.title = "Clipping value c", .x_label = "step", .log_y = true, .by_depth = true, .width = 600},
                        of_layers(records, &Layer::clip))) +
         card(line_chart({.title = "Saturated: gradients beyond the clip, before its update",
                          .x_label = "step",
                          .y_label = "% of elements",
                          .by_depth = true,
                          .width = 600},
                         of_layers(records, &Layer::saturated, 100))) +
         "</div>\n";
}

// The share of each octave of |g|: a line for each of at most six updates, from the first (dark) to the last.
std::string histograms(const RunRecords& records) {
  if (records.histograms.empty()) return {};
  std::string html =
      "<h2>Gradients</h2><p>How the magnitudes of each layer's gradient spread over powers of two, over training. The "
      "first recorded update is dark, the last bright.</p><div class=\"two\">\n";
  for (const RunRecords::Layer& layer : records.layers) {
    const auto found = records.histograms.find(layer.name);
    if (found == records.histograms.end()) continue;
    const auto& all = found->second;
    std::vector<Series> series;
    const size_t shown = std::min<size_t>(6, all.size());
    for (size_t k = 0; k < shown; ++k) {
      const RunRecords::Histogram& histogram = all[shown == 1 ? 0 : k * (all.size() - 1) / (shown - 1)];
      double total = 0;
      for (double count : histogram.counts) total += count;
      Series one{.name = fmt::format("step {:.0f}", histogram.step), .x = {}, .y = {}, .deviation = {}};
      // The first octave also holds the zeros, and the next ones hold almost nothing.
      for (size_t i = 1; i < histogram.counts.size(); ++i) {
        if (histogram.first_octave + double(i) < -36) continue;
        one.x.push_back(histogram.first_octave + double(i));
        one.y.push_back(total > 0 ? 100 * histogram.counts[i] / total : 0);
      }
      series.push_back(std::move(one));
    }
    html += card(line_chart({.title = layer.name,
                             .x_label = "log2 |g|",
                             .y_label = "% of elements",
                             .by_depth = true,
                             .width = 600,
                             .height = 240},
                            series));
  }
  return html + "</div>\n";
}

// As table 1 of the paper: no common distribution describes the gradients, so a clip cannot be derived from one.
std::string distributions(const RunRecords& records) {
  if (records.histograms.empty()) return {};
  std::string html =
      "<h2>Which distribution?</h2><p>Kolmogorov-Smirnov statistics of each layer's gradient at the last recorded "
      "update: the largest difference between its cumulative distribution and that of the most likely fit. A fit is "
      "rejected, at a level of 5 %, above the critical value.</p>\n<table><tr><th>layer</th><th>Gaussian</th>"
      "<th>Laplace</th><th>Student's t</th><th>critical value</th></tr>\n";
  for (const RunRecords::Layer& layer : records.layers) {
    const auto found = records.histograms.find(layer.name);
    if (found == records.histograms.end()) continue;
    const RunRecords::Histogram& last = found->second.back();
    if (!std::isfinite(last.gaussian)) continue;  // recorded before there were statistics
    html += fmt::format("<tr><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td></tr>\n",
                        escaped(layer.name), last.gaussian, last.laplace, last.student, last.critical);
  }
  return html + "</table>\n";
}

}  // namespace

std::string inspect_page(const std::string& directory) {
  const RunRecords records = read_records(directory);
  const std::optional<Result> result = read_result(directory);
  const std::string name = std::filesystem::path(directory).lexically_normal().filename().string();
  std::string html = fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{0}</title><style>{1}</style></head><body><main>\n<h1>{0}</h1>"
      "<p>{2}</p>\n",
      escaped(name.empty() ? directory : name), style, escaped(description(directory, result)));
  html += tiles(records, result);
  html += curves(records);
  html += detection_sections(directory, result);
  html += layers(records) + histograms(records) + distributions(records);
  return html + "<details><summary>Configuration</summary><pre>" + escaped(read_if_there(directory + "/config.yaml")) +
         "</pre></details></main></body></html>\n";
}

}  // namespace octet
