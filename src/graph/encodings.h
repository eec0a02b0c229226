// Decides which edges of a graph carry codes, and which codes.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/node.h"

namespace octet {

// The encoding of every edge (by its id); real edges have the default one. producer: the node that writes each edge;
// consumers: those that read it.
std::vector<Encoding> choose_encodings(const Policy&, const std::vector<std::unique_ptr<Node>>& nodes,
                                       const std::vector<Shape>& shapes, const std::vector<int>& producer,
                                       const std::vector<std::vector<int>>& consumers);

}  // namespace octet
