// Detectors, one file each. Parameter names are torchvision's.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/nodes/detection.h"

namespace octet {

// Appends the detector `model.name` to the graph with its losses, or for evaluation with what makes detections of its
// answers.
void make_detector(Graph&, Edge images, const Config&, bool training);
// The anchors of model.name, for `octet check`. UsageError: model.anchor_sizes does not fit the network.
struct AnchorRule {
  std::vector<AnchorLevel> levels = {};  // without the sizes of maps, which follow from the canvas
  float positive = 0.5f;                 // the overlap from which an anchor trains to find an object
};
AnchorRule anchors_of(const Config&);
std::vector<std::string> detector_names();
bool is_detector(const std::string& model_name);
// Whether a detector has layers or norms of the backbone that never train.
bool freezes_backbone(const Config::Model&);

// As the recipe says.
DetectOptions detect_options(const Config&);

}  // namespace octet
