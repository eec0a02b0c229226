#include "src/tasks/task.h"

#include <algorithm>

namespace octet {

extern const Task classification;

const Task& task_of(const Config&) { return classification; }

Scalars judge_first(const Task& task, Scalars figures) {
  std::stable_partition(figures.begin(), figures.end(),
                        [&](const Scalar& figure) { return figure.name == task.judge; });
  return figures;
}

}  // namespace octet
