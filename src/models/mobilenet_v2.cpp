#include "src/models/models.h"

namespace octet {

constexpr Activation relu6 = Activation::relu6;

// MobileNetV2 (Sandler et al. 2018). The CIFAR form, the first one, has no stride in the stem and in the second
// stage. The classifier has no dropout: torchvision's network has dropout 0.2 there, the paper's has none.
std::vector<Head> mobilenet_v2(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  const bool cifar = form == 0;
  struct Stage {
    int expansion;
    int64_t out;
    int blocks, stride;
  };
  const Stage stages[] = {
      {1, 16, 1, 1}, {6, 24, 2, cifar ? 1 : 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
      {6, 320, 1, 1}};
  const auto conv = [&](const std::string& name, int first, Edge from, ConvOptions options) {
    options.norm = name + "." + std::to_string(first + 1);
    return octet::conv(graph, name + "." + std::to_string(first), from, options);
  };
  x = conv("features.0", 0, x, {.out = 32, .kernel = 3, .stride = cifar ? 1 : 2, .pad = 1, .activation = relu6});
  int64_t channels = 32;
  int index = 1;
  for (const Stage& stage : stages) {
    for (int block = 0; block < stage.blocks; ++block, ++index) {
      const int stride = block == 0 ? stage.stride : 1;
      const int64_t hidden = channels * stage.expansion;
      const std::string name = "features." + std::to_string(index) + ".conv";
      const bool shortcut = stride == 1 && channels == stage.out;
      Edge y = x;
      int part = 0;
      if (stage.expansion > 1)
        y = conv(name + "." + std::to_string(part++), 0, y, {.out = hidden, .kernel = 1, .activation = relu6});
      y = conv(name + "." + std::to_string(part++), 0, y,
               {.out = hidden, .kernel = 3, .stride = stride, .pad = 1, .groups = hidden, .activation = relu6});
      ConvOptions project{.out = stage.out, .kernel = 1};
      if (shortcut) project.residual = x;
      x = conv(name, part, y, project);
      channels = stage.out;
    }
  }
  x = conv("features.18", 0, x, {.out = 1280, .kernel = 1, .activation = relu6});
  return {{linear(graph, "classifier.1", global_pool(graph, "avgpool", x),
                  {.out = model.classes, .init = Init::normal_001, .gives_logits = true})}};
}

}  // namespace octet
