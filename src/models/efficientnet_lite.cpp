#include "src/models/backbone.h"
#include "src/models/models.h"

namespace octet {
namespace {

constexpr Activation relu6 = Activation::relu6;
constexpr float epsilon = 1e-3f;

// With TensorFlow's padding.
Edge conv(const BackboneLayers& layers, const std::string& name, const std::string& norm, Edge x, ConvOptions options) {
  options.same = true;
  return layers.conv(name, norm, x, options);
}

}  // namespace

// EfficientNet-Lite0 (Tan and Le, "EfficientNet: Rethinking Model Scaling", ICML 2019; the Lite form of 2020 has ReLU6
// and no squeeze-and-excitation). Names of parameters are those of the package efficientnet_lite_pytorch. The CIFAR
// form, the first one, has no stride in the stem and in the second stage. Unlike the authors' training,
// this one drops no residual branches, and running statistics move by 0.1 per step, not by 0.01.
std::vector<Head> efficientnet_lite0(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  const BackboneLayers layers{.graph = graph, .epsilon = epsilon};
  x = efficientnet_lite0_stages(layers, x, model.name, form, 4).back();
  x = conv(layers, "_conv_head", "_bn1", x, {.out = 1280, .kernel = 1, .activation = relu6});
  x = dropout(graph, "_dropout", global_pool(graph, "_avg_pooling", x), {static_cast<float>(model.dropout)});
  return {{linear(graph, "_fc", x, {.out = model.classes, .init = Init::normal_001, .gives_logits = true})}};
}

std::vector<Edge> efficientnet_lite0_stages(BackboneLayers layers, Edge x, const std::string& /*network*/, size_t form,
                                            int count) {
  const bool cifar = form == 0;
  struct Blocks {
    int stage;  // of a backbone
    int expansion, kernel;
    int64_t out;
    int number, stride;
  };
  const Blocks rows[] = {{1, 1, 3, 16, 1, 1},  {1, 6, 3, 24, 2, cifar ? 1 : 2},
                         {2, 6, 5, 40, 2, 2},  {3, 6, 3, 80, 3, 2},
                         {3, 6, 5, 112, 3, 1}, {4, 6, 5, 192, 4, 2},
                         {4, 6, 3, 320, 1, 1}};
  x = conv(layers, "_conv_stem", "_bn0", x, {.out = 32, .kernel = 3, .stride = cifar ? 1 : 2, .activation = relu6});
  std::vector<Edge> outputs;
  int64_t channels = 32;
  int index = 0;
  for (const Blocks& row : rows) {
    if (row.stage > count) break;
    layers.stage = row.stage;
    for (int block = 0; block < row.number; ++block, ++index) {
      const int stride = block == 0 ? row.stride : 1;
      const int64_t hidden = channels * row.expansion;
      const std::string name = "_blocks." + std::to_string(index) + ".";
      Edge y = x;
      if (row.expansion > 1)
        y = conv(layers, name + "_expand_conv", name + "_bn0", y, {.out = hidden, .kernel = 1, .activation = relu6});
      y = conv(layers, name + "_depthwise_conv", name + "_bn1", y,
               {.out = hidden, .kernel = row.kernel, .stride = stride, .groups = hidden, .activation = relu6});
      ConvOptions project{.out = row.out, .kernel = 1};
      if (stride == 1 && channels == row.out) project.residual = x;
      x = conv(layers, name + "_project_conv", name + "_bn2", y, project);
      channels = row.out;
    }
    outputs.resize(size_t(row.stage));
    outputs.back() = x;
  }
  return outputs;
}

}  // namespace octet
