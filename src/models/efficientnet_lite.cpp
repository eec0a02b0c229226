#include "src/models/models.h"

namespace octet {

// EfficientNet-Lite0 (Tan and Le, "EfficientNet: Rethinking Model Scaling", ICML 2019; the Lite form of 2020 has ReLU6
// and no squeeze-and-excitation). Names of parameters are those of the package efficientnet_lite_pytorch. The CIFAR
// form, the first one, has no stride in the stem and in the second stage. Unlike the authors' training,
// this one drops no residual branches, and running statistics move by 0.1 per step, not by 0.01.
std::vector<Head> efficientnet_lite0(Graph& graph, Edge x, const Config::Model& model, size_t form) {
  const bool cifar = form == 0;
  struct Stage {
    int expansion, kernel;
    int64_t out;
    int blocks, stride;
  };
  const Stage stages[] = {{1, 3, 16, 1, 1},  {6, 3, 24, 2, cifar ? 1 : 2},
                          {6, 5, 40, 2, 2},  {6, 3, 80, 3, 2},
                          {6, 5, 112, 3, 1}, {6, 5, 192, 4, 2},
                          {6, 3, 320, 1, 1}};
  const auto conv = [&](const std::string& name, const std::string& norm, Edge from, ConvOptions options) {
    options.same = true;
    options.norm = norm;
    options.epsilon = 1e-3f;
    return octet::conv(graph, name, from, options);
  };
  constexpr Activation relu6 = Activation::relu6;
  x = conv("_conv_stem", "_bn0", x, {.out = 32, .kernel = 3, .stride = cifar ? 1 : 2, .activation = relu6});
  int64_t channels = 32;
  int index = 0;
  for (const Stage& stage : stages) {
    for (int block = 0; block < stage.blocks; ++block, ++index) {
      const int stride = block == 0 ? stage.stride : 1;
      const int64_t hidden = channels * stage.expansion;
      const std::string name = "_blocks." + std::to_string(index) + ".";
      Edge y = x;
      if (stage.expansion > 1)
        y = conv(name + "_expand_conv", name + "_bn0", y, {.out = hidden, .kernel = 1, .activation = relu6});
      y = conv(name + "_depthwise_conv", name + "_bn1", y,
               {.out = hidden, .kernel = stage.kernel, .stride = stride, .groups = hidden, .activation = relu6});
      ConvOptions project{.out = stage.out, .kernel = 1};
      if (stride == 1 && channels == stage.out) project.residual = x;
      x = conv(name + "_project_conv", name + "_bn2", y, project);
      channels = stage.out;
    }
  }
  x = conv("_conv_head", "_bn1", x, {.out = 1280, .kernel = 1, .activation = relu6});
  x = dropout(graph, "_dropout", global_pool(graph, "_avg_pooling", x), {static_cast<float>(model.dropout)});
  return {{linear(graph, "_fc", x, {.out = model.classes, .init = Init::normal_001, .gives_logits = true})}};
}

}  // namespace octet
