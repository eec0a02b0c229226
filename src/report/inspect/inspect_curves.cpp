#include <algorithm>
#include <cmath>
#include <vector>

#include "src/report/inspect/sections.h"
#include "src/report/page.h"
#include "src/tasks/metric_display.h"

namespace octet {
namespace {

constexpr int curve_height = 270;

const Series* recorded(const RunRecords& records, const std::string& name) {
  const auto found = records.metrics.find(name);
  return found == records.metrics.end() ? nullptr : &found->second;
}

// Where a few values are far above the others, as the loss of the first tests often is, the curve ends below them.
std::optional<double> top_of(const std::vector<Series>& series) {
  constexpr double near = 2.5, far = 1.5;
  std::vector<double> values;
  double own = 0;  // the largest value of the first series, which is always shown
  for (const Series& one : series)
    for (const double value : one.y) {
      if (!std::isfinite(value)) continue;
      values.push_back(value);
      if (&one == &series.front()) own = std::max(own, value);
    }
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double most = values[(values.size() - 1) * 9 / 10];
  const double top = std::max(near * most, 1.1 * own);
  return most > 0 && values.back() > far * top ? std::optional(top) : std::nullopt;
}

class Curves {
 public:
  Curves(const RunRecords& records, const std::optional<Result>& result) : records_(records), result_(result) {}

  // A metric in training and on the test set, in one chart.
  std::string of_metric(const std::string& metric) const {
    const MetricDisplay display = display_of(metric);
    if (!display.main) return {};
    std::vector<Series> series;
    const bool rate = metric == "learning_rate";
    add(series, "epoch/" + metric, rate ? "at the end of an epoch" : "training, mean of an epoch", 0);
    add(series, "train/" + metric, series.empty() ? "training" : rate ? "in between" : "training, single batches", 0);
    if (series.size() > 1) series.back().stroke = Series::Stroke::faint;
    const bool tested = add(series, "test/" + metric, "test", 1);
    if (series.empty() || drawn_before(metric)) return {};
    for (Series& one : series) one = one.scaled(display.factor());
    ChartOptions options{.title = display.title, .x_label = unit(), .y_label = display.share ? "%" : ""};
    if (!display.share) options.top = top_of(series);
    if (display.share) options.most = 100;
    if (tested && result_ && result_->best)
      options.mark = {static_cast<double>(result_->best->step) / divisor(), "best"};
    return drawn(options, series);
  }

  // The losses of which the loss is the sum.
  std::string parts_of_loss() const {
    const std::string kind = recorded(records_, "epoch/loss") != nullptr ? "epoch/" : "train/";
    std::vector<Series> series;
    for (const auto& [name, values] : records_.metrics)
      if (name.starts_with(kind + "loss_")) add(series, name, display_of(name.substr(kind.size())).label, -1);
    if (series.empty()) return {};
    return drawn({.title = "Parts of the loss", .x_label = unit(), .top = top_of(series)}, series);
  }

 private:
  // Whether an earlier metric has the same values on the test set, as mAP and AP50 have by the rules of VOC.
  bool drawn_before(const std::string& metric) const {
    const Series* const own = recorded(records_, "test/" + metric);
    if (own == nullptr) return false;
    for (const auto& [name, series] : records_.metrics) {
      if (&series == own) return false;
      if (name.starts_with("test/") && series.y == own->y && display_of(name.substr(name.find('/') + 1)).main)
        return true;
    }
    return false;
  }
  double divisor() const { return records_.steps_per_epoch.value_or(1); }
  std::string unit() const { return records_.steps_per_epoch ? "epoch" : "step"; }
  static std::string drawn(ChartOptions options, const std::vector<Series>& series) {
    options.width = card_chart_width, options.height = curve_height;
    return card(line_chart(options, series));
  }
  bool add(std::vector<Series>& series, const std::string& record, const std::string& name, int color) const {
    const Series* const found = recorded(records_, record);
    if (found == nullptr) return false;
    series.push_back(*found);
    for (double& x : series.back().x) x /= divisor();
    series.back().name = name;
    series.back().color = color;
    return true;
  }

  const RunRecords& records_;
  const std::optional<Result>& result_;
};

// The first test may look like a defect.
std::string note_on_first_test(const RunRecords& records) {
  const Series *const test = recorded(records, "test/loss"), *const train = recorded(records, "epoch/loss");
  constexpr double settled = 50;  // steps, as where the training says the same
  if (test == nullptr || train == nullptr || test->x.empty() || train->x.empty()) return {};
  if (test->x.front() >= settled || !(test->y.front() > 2 * train->y.front())) return {};
  return "<p>The first test came after few steps. A test uses the norms' running means and variances, which begin at 0 "
         "and 1 and had not settled yet, so its loss is high.</p>\n";
}

}  // namespace

std::string curve_section(const RunRecords& records, const std::optional<Result>& result) {
  const Curves curves(records, result);
  std::string html = curves.of_metric("loss") + curves.parts_of_loss();
  for (const auto& [name, series] : records.metrics)
    if (name.starts_with("test/") && name != "test/loss") html += curves.of_metric(name.substr(name.find('/') + 1));
  html += curves.of_metric("learning_rate") + curves.of_metric("images_per_second");
  return note_on_first_test(records) + card_grid(html, "three");
}

}  // namespace octet
