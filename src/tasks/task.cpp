#include "src/tasks/task.h"

#include <algorithm>

#include "src/models/detectors.h"

namespace octet {

extern const Task classification, coco_detection, voc_detection;

const Task& task_of(const Config& config) {
  if (!is_detector(config.model.name)) return classification;
  return config.data.name == "voc" ? voc_detection : coco_detection;
}

Scalars judge_first(const Task& task, Scalars figures) {
  std::stable_partition(figures.begin(), figures.end(),
                        [&](const Scalar& figure) { return figure.name == task.judge; });
  return figures;
}

}  // namespace octet
