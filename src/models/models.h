// The networks, one file per family. Parameter names are torchvision's if torchvision has the network.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/nodes/nodes.h"
#include "src/normalization.h"

namespace octet {

// Appends the network `model.name` to the graph and returns its heads. images: the input edge. Some networks have
// another form for small images. UsageError: the name is not known; the message lists the known ones.
std::vector<Head> make_model(Graph&, Edge images, const Config::Model&);
// The normalization of the images on which the published weights of the network, or of a detector's backbone, were
// trained; null: none are published under its names.
const Normalization* published_normalization(const Config::Model&);
std::vector<std::string> model_names();  // with those of detectors.h

}  // namespace octet
