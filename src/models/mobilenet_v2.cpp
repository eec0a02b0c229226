#include "src/models/backbone.h"
#include "src/models/models.h"

namespace octet {
namespace {

constexpr Activation relu6 = Activation::relu6;

// The convolution `number` of a sequence of layers, and its norm behind it.
Edge conv(const BackboneLayers& layers, const std::string& sequence, int number, Edge x, const ConvOptions& options) {
  return layers.conv(say(sequence, ".", number), say(sequence, ".", number + 1), x, options);
}

}  // namespace

// MobileNetV2 (Sandler et al. 2018). The CIFAR form, the first one, has no stride in the stem and in the second
// stage. The classifier has no dropout: torchvision's network has dropout 0.2 there, the paper's has none.
std::vector<Head> mobilenet_v2(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  x = mobilenet_v2_stages({graph}, x, model.name, form, 4).back();
  x = conv({graph}, "features.18", 0, x, {.out = 1280, .kernel = 1, .activation = relu6});
  return {{linear(graph, "classifier.1", global_pool(graph, "avgpool", x),
                  {.out = model.classes, .init = Init::normal_001, .gives_logits = true})}};
}

std::vector<Edge> mobilenet_v2_stages(BackboneLayers layers, Edge x, const std::string& /*network*/, size_t form,
                                      int count) {
  const bool cifar = form == 0;
  struct Blocks {
    int stage;  // of a backbone
    int expansion;
    int64_t out;
    int number, stride;
  };
  const Blocks rows[] = {{1, 1, 16, 1, 1}, {1, 6, 24, 2, cifar ? 1 : 2},
                         {2, 6, 32, 3, 2}, {3, 6, 64, 4, 2},
                         {3, 6, 96, 3, 1}, {4, 6, 160, 3, 2},
                         {4, 6, 320, 1, 1}};
  x = conv(layers, "features.0", 0, x,
           {.out = 32, .kernel = 3, .stride = cifar ? 1 : 2, .pad = 1, .activation = relu6});
  std::vector<Edge> outputs;
  int64_t channels = 32;
  int index = 1;
  for (const Blocks& row : rows) {
    if (row.stage > count) break;
    layers.stage = row.stage;
    for (int block = 0; block < row.number; ++block, ++index) {
      const int stride = block == 0 ? row.stride : 1;
      const int64_t hidden = channels * row.expansion;
      const std::string name = say("features.", index, ".conv");
      Edge y = x;
      int part = 0;
      if (row.expansion > 1)
        y = conv(layers, say(name, ".", part++), 0, y, {.out = hidden, .kernel = 1, .activation = relu6});
      y = conv(layers, say(name, ".", part++), 0, y,
               {.out = hidden, .kernel = 3, .stride = stride, .pad = 1, .groups = hidden, .activation = relu6});
      ConvOptions project{.out = row.out, .kernel = 1};
      if (stride == 1 && channels == row.out) project.residual = x;
      x = conv(layers, name, part, y, project);
      channels = row.out;
    }
    outputs.resize(size_t(row.stage));
    outputs.back() = x;
  }
  return outputs;
}

}  // namespace octet
