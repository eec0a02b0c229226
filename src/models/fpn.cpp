// Feature Pyramid Network.
#include "src/models/backbone.h"

namespace octet {

std::vector<Edge> make_pyramid(Graph& graph, const std::vector<Edge>& inputs, const std::string& prefix,
                               int64_t channels) {
  const size_t levels = inputs.size();
  std::vector<Edge> inner(levels), outputs(levels);
  for (size_t level = levels; level-- > 0;) {
    const std::string number = std::to_string(level);
    ConvOptions lateral{.out = channels, .kernel = 1, .init = Init::lecun_uniform};
    if (level + 1 < levels)
      lateral.residual =
          pool(graph, prefix + "repeat." + number, inner[level + 1], {.kernel = 2, .kind = PoolKind::repeat});
    inner[level] = conv(graph, prefix + "inner_blocks." + number + ".0", inputs[level], lateral);
  }
  for (size_t level = 0; level < levels; ++level)
    outputs[level] = conv(graph, prefix + "layer_blocks." + std::to_string(level) + ".0", inner[level],
                          {.out = channels, .kernel = 3, .pad = 1, .init = Init::lecun_uniform});
  return outputs;
}

}  // namespace octet
