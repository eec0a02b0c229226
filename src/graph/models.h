// The networks, each a ~30-line function; parameter names equal torchvision's where torchvision has the network.
#pragma once
#include <string>

#include "src/graph/graph.h"

namespace octet {

// images: (height, width, 3). CIFAR forms are chosen for images up to 64 pixels where a network has one.
// UsageError names the known networks.
Graph make_model(const std::string& name, int64_t height, int64_t width, int64_t classes, float label_smoothing);

}  // namespace octet
