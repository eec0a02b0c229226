// The networks, one file per family. Parameter names equal torchvision's where torchvision has the network.
#pragma once
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/graph.h"

namespace octet {

// Appends the network that model.name names. Some networks have a form of their own for small images. UsageError names
// the known networks.
std::vector<Head> make_model(Graph&, Edge images, const Config::Model&);
std::vector<std::string> model_names();

}  // namespace octet
