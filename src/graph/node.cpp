#include "src/graph/node.h"

namespace octet {

const char* name_of(Phase phase) {
  constexpr const char* names[] = {"data_wait", "forward",  "backward_data", "backward_weight",
                                   "passes",    "quantize", "exchange",      "update"};
  return names[static_cast<int>(phase)];
}

Into Step::into(Edge edge) const {
  const bool add = memory.written[edge.id];
  memory.written[edge.id] = true;
  return {memory.gradients[edge.id], add};
}

}  // namespace octet
