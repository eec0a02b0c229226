// Decides which edges of a graph carry codes, and which codes.
#pragma once
#include <memory>
#include <vector>

#include "src/graph/node.h"

namespace octet {

// Returns the encoding of every edge, by its id. Edges with f32 values have the default encoding. producer: the node
// that writes each edge. consumers: the nodes that read it.
std::vector<Encoding> choose_encodings(const Policy&, const std::vector<std::unique_ptr<Node>>& nodes,
                                       const std::vector<Shape>& shapes, const std::vector<int>& producer,
                                       const std::vector<std::vector<int>>& consumers);

}  // namespace octet
