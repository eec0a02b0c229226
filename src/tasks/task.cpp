#include "src/tasks/task.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "src/data/annotations/annotations.h"
#include "src/data/annotations/annotations.h"
#include "src/models/detectors.h"

namespace octet {

extern const Task classification, coco_detection, voc_detection;

const Task& task_of(const Config& config) {
  if (!is_detector(config.model.name)) return classification;
  return config.data.name == "voc" ? voc_detection : coco_detection;
}

void require_data_for(const Task& task, const Config& config, const Dataset& data) {
  const bool objects = data.annotations() != nullptr;
  REQUIRE_USAGE(objects == task.objects, "choose data and a network for one task", config.model.name,
                " is a network for ", task.name, ", but the images of '", config.data.name, "' have ",
                objects ? "objects" : "one class each");
  if (objects && data.size() > 0) require_objects_to_find(*data.annotations(), config.data.root);
}

Scalars main_figure_first(const Task& task, Scalars figures) {
  std::stable_partition(figures.begin(), figures.end(),
                        [&](const Scalar& figure) { return figure.name == task.main_figure; });
  return figures;
}

}  // namespace octet
