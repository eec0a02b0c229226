// The networks, one file per family. Parameter names are torchvision's if torchvision has the network.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/nodes/nodes.h"
#include "src/normalization.h"

namespace octet {

// Appends the network `model.name` to the graph and returns its heads. images: the input edge. UsageError: the name is
// not known, and the message lists the known ones; or the network takes no images of this size.
std::vector<Head> make_model(Graph&, Edge images, const Config::Model&);
// Some networks have another form for small images. Parameters of several forms have the same shapes, but the weights
// of one are of no use to another. The number of the form for images of this side, in pixels; 0 for a network with one
// form. Empty: the network takes no such images.
std::optional<size_t> form_of(const std::string& network, int64_t side);
// The normalization of the images on which the published weights of the network, or of a detector's backbone, were
// trained; null: none are published under its names.
const Normalization* published_normalization(const Config::Model&);
std::vector<std::string> model_names();  // with those of detectors.h

}  // namespace octet
