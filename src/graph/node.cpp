#include "src/graph/node.h"

namespace octet {

const char* name_of(Phase phase) {
  constexpr const char* names[] = {"data_wait", "forward",  "backward_data", "backward_weight",
                                   "passes",    "quantize", "exchange",      "update"};
  return names[static_cast<int>(phase)];
}

Into Step::into(Edge edge) const {
  Written& written = memory.written[size_t(edge.id)];
  const bool part = written == Written::part;
  const Into into{gradient(edge), written != Written::nothing, part ? mask(edge) : Tensor{},
                  part && memory.even[size_t(edge.id)]};
  written = Written::all;
  return into;
}

}  // namespace octet
