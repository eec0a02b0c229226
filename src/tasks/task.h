// What a network is trained for: which losses end it, and which figure judges it. Nothing below knows the task.
#pragma once
#include "src/graph/graph.h"
#include "src/graph/metrics.h"

namespace octet {

struct Task {
  const char* name;
  // The network of config.model with its losses, for images of height x width pixels.
  Graph (*network)(const Config&, const Policy&, int64_t height, int64_t width);
  const char* judge;  // the figure by which runs are compared: "top1"
};
const Task& task_of(const Config&);

// The figures with the task's judge first.
Scalars judge_first(const Task&, Scalars);

}  // namespace octet
