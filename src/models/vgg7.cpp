#include "src/models/models.h"

namespace octet {

// The network of WAGE (Wu et al. 2018, section 4.2), for images of 32 pixels. It has no norms.
std::vector<Head> vgg7(Graph& graph, Edge x, const Config::Model& model, size_t /*form*/) {
  constexpr Activation relu = Activation::relu;
  int index = 0;
  for (int64_t width : {128, 256, 512}) {
    for (int layer = 0; layer < 2; ++layer)
      x = conv(graph, "features." + std::to_string(index++), x,
               {.out = width, .kernel = 3, .pad = 1, .activation = relu});
    x = pool(graph, "features." + std::to_string(index++), x, {.kernel = 2, .stride = 2});
  }
  x = linear(graph, "classifier.0", x, {.out = 1024, .activation = relu});
  return {{linear(graph, "classifier.1", x, {.out = model.classes, .gives_logits = true})}};
}

}  // namespace octet
