// How metrics are shown. A run's records name its metrics, and reports show the metrics that they find in the records.
#pragma once
#include <string>
#include <vector>

#include "src/graph/metrics.h"

namespace octet {

struct MetricDisplay {
  std::string name;    // in records and result.json: "top1"
  std::string label;   // in a sentence or a table: "top-1"
  std::string title;   // above a chart: "Top-1 accuracy"
  bool share = false;  // 0 to 1, shown as percent
  bool main = true;    // shown on the progress line, and as a chart and a tile on a run's page

  double factor() const { return share ? 100 : 1; }
  std::string with_unit() const { return share ? label + " (%)" : label; }
  std::string text(double value) const;  // "91.25 %", "0.312", "not finite"
};

// The display of a metric. A metric that is not in the table is shown under its name.
MetricDisplay display_of(const std::string& name);

// "loss 1.234" and "top-1 56.1 %". digits: decimals of percentages; other numbers have two more. all: includes metrics
// that are not `main`.
std::vector<std::string> show_each(const Scalars&, int digits, bool all);
// The same in one line: "loss 1.234  top-1 56.1 %".
std::string show(const Scalars&, int digits, bool all, const char* separator);

}  // namespace octet
