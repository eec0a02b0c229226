// How people see metrics. Runs name their metrics in their records; reports know only those that they find there.
#pragma once
#include <string>

#include "src/graph/metrics.h"

namespace octet {

struct MetricDisplay {
  std::string name;    // in records and result.json: "top1"
  std::string label;   // in a sentence or a table: "top-1"
  std::string title;   // above a chart: "Top-1 accuracy"
  bool share = false;  // 0 to 1, shown as percent
  bool main = true;    // shown after each step, and as a chart and a tile on the page of a run

  double factor() const { return share ? 100 : 1; }
  std::string with_unit() const { return share ? label + " (%)" : label; }
  std::string text(double value) const;  // "91.25 %", "0.312", "not finite"
};

// The display of a metric; its bare name for one that is not in the table.
MetricDisplay display_of(const std::string& name);

// "loss 1.234  top-1 56.1 %". digits: of percentages; other numbers have two more. all: not the main metrics alone.
std::string show(const Scalars&, int digits, bool all, const char* separator);

}  // namespace octet
