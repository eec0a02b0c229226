// The networks, each a short function; parameter names equal torchvision's where torchvision has the network.
#pragma once
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace octet {

// images: (height, width, 3). CIFAR forms are chosen for small images where a network has one.
// UsageError names the known networks.
Graph make_model(const Config::Model&, int64_t height, int64_t width, float label_smoothing);

std::vector<Head> alexnet(Graph&, Edge images, bool norm, int64_t side, const Config::Model&);
std::vector<Head> inception_v3(Graph&, Edge images, int64_t side, const Config::Model&);

}  // namespace octet
