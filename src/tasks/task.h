// What a network is trained for: its losses and the metric by which runs are compared. Only this folder and the folders
// above it know tasks.
#pragma once
#include <memory>

#include "src/config/config.h"
#include "src/graph/graph.h"
#include "src/graph/metrics.h"
#include "src/tasks/judge.h"
#include "src/tasks/presentation.h"

namespace octet {

struct Task {
  const char* name;
  // Builds the network of config.model with its losses, for training or for evaluation. height, width: of the images,
  // in pixels.
  Graph (*network)(const Config&, const Policy&, int64_t height, int64_t width, bool training);
  const char* main_figure;  // the metric by which runs are compared: "top1"
  bool objects;             // the truth of an image is objects with boxes, and so are the answers to it
  // Judges one evaluation on a test set, which must outlive the judge. keeps_answers: for the
  // figures of each class, and for what Judge::write() keeps of a run's last evaluation.
  std::unique_ptr<Judge> (*judge)(const Dataset& test, bool keeps_answers);
  // Shows what is said of images. The classes must outlive it.
  std::unique_ptr<Presentation> (*presentation)(const Classes&, const Presentation::Options&);
};
const Task& task_of(const Config&);
// UsageError: the data are for another task than the network, or have no object to find.
void require_data_for(const Task&, const Config&, const Dataset&);

// Moves the task's main figure to the front.
Scalars main_figure_first(const Task&, Scalars);

}  // namespace octet
