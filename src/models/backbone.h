// Networks without their last layers, as detectors use them.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/graph.h"

namespace octet {

// Appends model.backbone and returns the outputs of its four stages, C2 to C5 with the strides 4, 8, 16 and 32. What
// model.norm and model.freeze_stages freeze keeps its loaded weights. prefix: of all names of layers. UsageError: the
// name is not known; the message lists the known ones.
std::vector<Edge> make_backbone(Graph&, Edge images, const Config::Model&, const std::string& prefix);
std::vector<std::string> backbone_names();

// Feature Pyramid Network (Lin et al., "Feature pyramid networks for object detection", CVPR 2017), with torchvision's
// names. inputs: the stages, the one with the largest stride last. Each output has `channels` channels and the stride
// of its input.
std::vector<Edge> make_pyramid(Graph&, const std::vector<Edge>& inputs, const std::string& prefix, int64_t channels);

}  // namespace octet
