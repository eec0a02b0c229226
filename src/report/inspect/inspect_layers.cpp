#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "src/report/charts/svg.h"
#include "src/report/inspect/sections.h"
#include "src/report/page.h"

namespace octet {
namespace {

std::vector<Series> of_layers(const RunRecords& records, Series RunRecords::Layer::*member, double factor = 1) {
  std::vector<Series> series;
  for (const RunRecords::Layer& layer : records.layers) series.push_back((layer.*member).scaled(factor));
  return series;
}

// The layers' curves, with the median of all layers, the least and the greatest at each update.
std::vector<Series> with_summary(std::vector<Series> layers, double steps_per_x) {
  std::map<double, std::vector<double>> by_update;
  for (Series& layer : layers)
    for (size_t i = 0; i < layer.x.size(); ++i) {
      layer.x[i] /= steps_per_x;
      if (std::isfinite(layer.y[i])) by_update[layer.x[i]].push_back(layer.y[i]);
    }
  if (layers.size() < 3) return layers;
  Series median{.name = "median of the layers", .x = {}, .y = {}, .stroke = Series::Stroke::strong};
  Series extremes{.name = "least and greatest", .x = {}, .y = {}, .stroke = Series::Stroke::dashed}, greatest;
  for (auto& [x, values] : by_update) {
    std::ranges::sort(values);
    for (Series* one : {&median, &extremes, &greatest}) one->x.push_back(x);
    median.y.push_back(values[values.size() / 2]);
    extremes.y.push_back(values.front());
    greatest.y.push_back(values.back());
  }
  if (by_update.empty()) return layers;
  extremes.x.push_back(extremes.x.back());
  extremes.y.push_back(std::numeric_limits<double>::quiet_NaN());  // a gap between the two lines
  extremes.x.insert(extremes.x.end(), greatest.x.begin(), greatest.x.end());
  extremes.y.insert(extremes.y.end(), greatest.y.begin(), greatest.y.end());
  layers.push_back(std::move(median));
  layers.push_back(std::move(extremes));
  return layers;
}

std::string clips(const RunRecords& records) {
  if (records.layers.empty()) return {};
  using Layer = RunRecords::Layer;
  constexpr const char* ask = "What is normal?";
  constexpr int width = card_chart_width;
  const double steps_per_x = records.steps_per_epoch.value_or(1);
  const std::string unit = records.steps_per_epoch ? "epoch" : "step";
  return "<h2>Clipping and learning rates, layer by layer</h2><p>One row or line for each quantized layer, from the "
         "input to the output. Each column is an update of the clips: after steps 1, 2, 3, 5, 9 … and then once in a "
         "period. Point at a mark to read it.</p>" +
         card_grid(
             card(heat_map(
                      {.title = "Cosine distance d_c (eq. 7)", .y_label = "(log scale)", .log_y = true, .width = width},
                      of_layers(records, &Layer::d_c)) +
                  folded(ask,
                         "d_c is how far clipping and 8 bits turn a layer's gradient. It differs by layer; a row that "
                         "stays far brighter than its neighbours loses most to quantization.")) +
                 card(heat_map({.title = "Learning rate scale φ(d_c) (eq. 8)", .width = width},
                               of_layers(records, &Layer::lr_scale)) +
                      folded(ask,
                             "φ is the factor of a layer's learning rate: near 1 where d_c is small, and never below "
                             "policy.lr_scale.beta. A row that stays dark is a layer with a low learning rate.")) +
                 card(line_chart({.title = "Clipping value c",
                                  .x_label = unit,
                                  .log_y = true,
                                  .by_depth = true,
                                  .width = width,
                                  .height = 300},
                                 with_summary(of_layers(records, &Layer::clip), steps_per_x)) +
                      folded(ask,
                             "Clips follow the size of the gradients: they differ by layer, and drift over the "
                             "training.")) +
                 card(line_chart({.title = "Gradients beyond the clip before its update",
                                  .x_label = unit,
                                  .y_label = "% of elements",
                                  .by_depth = true,
                                  .most = 100,
                                  .width = width,
                                  .height = 300},
                                 with_summary(of_layers(records, &Layer::saturated, 100), steps_per_x)) +
                      folded(ask,
                             "Where many values are beyond a clip, it is searched again. Shares that stay high mean "
                             "clips that "
                             "lag behind the gradients.")),
             "three");
}

// The share of each octave of |g|: a line for each of at most six updates, from the first (dark) to the last.
std::string histograms(const RunRecords& records) {
  if (records.histograms.empty()) return {};
  std::string html =
                  "<h2>Gradients</h2><p>How the magnitudes of each layer's gradient spread over powers of two, over "
                  "training. The "
                  "first recorded update is dark, the last bright.</p>",
              cards;
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
    cards += card(line_chart({.title = layer.name,
                              .x_label = "log2 |g|",
                              .y_label = "% of elements",
                              .by_depth = true,
                              .width = card_chart_width,
                              .height = 240},
                             series));
  }
  return html + card_grid(cards, "three");
}

// As table 1 of the paper: no common distribution describes the gradients, so a clip cannot be derived from one.
std::string distributions(const RunRecords& records) {
  if (records.histograms.empty()) return {};
  std::string html =
      "<h2>Which distribution?</h2><p>Kolmogorov-Smirnov statistics of each layer's gradient at the last recorded "
      "update: the largest difference between its cumulative distribution and that of the most likely fit. A fit is "
      "rejected, at a level of 5 %, above the critical value.</p>\n"
      "<div class=\"card list\"><table><tr><th>layer</th><th>Gaussian</th><th>Laplace</th><th>Student's "
      "t</th><th>critical value</th></tr>\n";
  for (const RunRecords::Layer& layer : records.layers) {
    const auto found = records.histograms.find(layer.name);
    if (found == records.histograms.end()) continue;
    const RunRecords::Histogram& last = found->second.back();
    if (!std::isfinite(last.gaussian)) continue;  // recorded before there were statistics
    html += fmt::format("<tr><td>{}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td><td>{:.4f}</td></tr>\n",
                        escaped(layer.name), last.gaussian, last.laplace, last.student, last.critical);
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string layer_sections(const RunRecords& records) {
  return clips(records) + histograms(records) + distributions(records);
}

}  // namespace octet
