// What a network is trained for: its losses and the metric by which runs are compared. Only this folder and the folders
// above it know tasks.
#pragma once
#include "src/config/config.h"
#include "src/graph/graph.h"
#include "src/graph/metrics.h"
#include "src/tasks/detection/judge.h"

namespace octet {

struct Task {
  const char* name;
  // Builds the network of config.model with its losses, for training or for evaluation. height, width: of the images,
  // in pixels.
  Graph (*network)(const Config&, const Policy&, int64_t height, int64_t width, bool training);
  const char* judge;  // the metric by which runs are compared: "top1"
  // Judges all detections on the test set. Null: the figures are the means of the plan's metrics.
  DetectionFigures (*figures)(const Annotations&, const std::vector<Detection>&) = nullptr;
};
const Task& task_of(const Config&);

// Moves the task's `judge` metric to the front.
Scalars judge_first(const Task&, Scalars);

}  // namespace octet
