// Decides which edges of a graph carry codes, and which codes.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/node.h"

namespace octet {

// Returns the encoding of every edge, by edge id. Edges with f32 values have the default encoding. producer: for each
// edge the node that writes it. consumers: for each edge the nodes that read it.
std::vector<Encoding> choose_encodings(const Policy&, const std::vector<std::unique_ptr<Node>>& nodes,
                                       const std::vector<Shape>& shapes, const std::vector<int>& producer,
                                       const std::vector<std::vector<int>>& consumers);

}  // namespace octet
