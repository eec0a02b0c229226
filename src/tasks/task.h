// What a network is trained for: which losses end it, and which figures judge it. Nothing else knows the task.
#pragma once
#include <string>
#include <vector>

#include "src/graph/graph.h"
#include "src/graph/metrics.h"

namespace octet {

// How a figure is shown to people.
struct MetricStyle {
  const char* name;   // in records: "top1"
  const char* label;  // "top-1"
  bool percent = false;
  bool headline = false;  // shown after every step and epoch; the others after a test alone
};

struct Task {
  const char* name;
  // The network of config.model with its losses, for images of height x width pixels.
  Graph (*network)(const Config&, const Policy&, int64_t height, int64_t width);
  std::vector<MetricStyle> metrics;
};
const Task& task_of(const Config&);

// "loss 1.234  top-1 56.1 %". digits: of percentages; the loss has two more. all: not the headlines alone.
std::string show(const Task&, const Scalars& figures, int digits, bool all, const char* separator);

}  // namespace octet
