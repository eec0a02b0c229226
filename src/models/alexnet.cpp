// Two forms of AlexNet. `alexnet` is torchvision's network ("One weird trick", Krizhevsky 2014). `alexnet_bn` has a
// norm after each layer but the last, and no dropout, as in DoReFa's recipe. The paper's full-precision accuracy
// matches the form with norms.
#include "src/models/models.h"

namespace octet {

// The large form, for 224 pixels, is torchvision's network: its adaptive pool is the identity at this size. In the
// small form the first layer is 5x5 with stride 2, and the first linear layer reads the output of the last pool.
std::vector<Head> alexnet(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  const bool norm = model.name == "alexnet_bn", small = form == 0;
  // The index in a name counts activations, pools and norms too, as in torchvision.
  int index = 0;
  const auto conv = [&](int64_t out, Extent kernel, int stride, Extent pad, bool pooled) {
    const std::string name = "features." + std::to_string(index);
    ConvOptions options{.out = out, .kernel = kernel, .stride = stride, .pad = pad, .activation = Activation::relu};
    if (norm)
      options.norm = "features." + std::to_string(++index);
    else
      options.init = Init::linear_uniform;
    x = octet::conv(graph, name, x, options);
    index += 2;
    if (pooled) x = pool(graph, "features." + std::to_string(index++), x, {.kernel = 3, .stride = 2});
  };
  conv(64, small ? 5 : 11, small ? 2 : 4, 2, true);
  conv(192, 5, 1, 2, true);
  conv(384, 3, 1, 1, false);
  conv(256, 3, 1, 1, false);
  conv(256, 3, 1, 1, true);

  index = 0;
  for (int layer = 0; layer < 2; ++layer) {
    if (!norm) x = dropout(graph, "classifier." + std::to_string(index++), x, {float(model.dropout)});
    const std::string name = "classifier." + std::to_string(index++);
    x = linear(
        graph, name, x,
        {.out = 4096, .norm = norm ? "classifier." + std::to_string(index++) : "", .activation = Activation::relu});
    ++index;
  }
  return {{linear(graph, "classifier." + std::to_string(index), x, {.out = model.classes, .gives_logits = true})}};
}

}  // namespace octet
