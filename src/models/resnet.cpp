// ResNet (He et al., "Deep residual learning for image recognition", CVPR 2016), with torchvision's names.
#include <algorithm>
#include <array>

#include "src/models/backbone.h"
#include "src/models/models.h"

namespace octet {
namespace {

constexpr Activation relu = Activation::relu;

struct Residual {
  BackboneLayers layers;
  int dilation = 1;  // of the 3x3 convolutions

  Edge conv(const std::string& name, const std::string& norm, Edge x, const ConvOptions& options) const {
    return layers.conv(name, norm, x, options);
  }

  // Two 3x3 convolutions (He et al. 2016, figure 5 left).
  Edge basic(const std::string& name, Edge x, int64_t in, int64_t out, int stride) {
    const Edge y =
        conv(name + ".conv1", name + ".bn1", x,
             {.out = out, .kernel = 3, .stride = stride, .pad = dilation, .dilation = dilation, .activation = relu});
    return conv(name + ".conv2", name + ".bn2", y,
                {.out = out,
                 .kernel = 3,
                 .pad = dilation,
                 .dilation = dilation,
                 .activation = relu,
                 .residual = shortcut(name, x, in, out, stride)});
  }

  // 1x1, 3x3, 1x1 convolutions (figure 5 right). The 3x3 convolution has the stride, as in torchvision.
  Edge bottleneck(const std::string& name, Edge x, int64_t in, int64_t width, int stride) {
    Edge y = conv(name + ".conv1", name + ".bn1", x, {.out = width, .kernel = 1, .activation = relu});
    y = conv(name + ".conv2", name + ".bn2", y,
             {.out = width, .kernel = 3, .stride = stride, .pad = dilation, .dilation = dilation, .activation = relu});
    return conv(
        name + ".conv3", name + ".bn3", y,
        {.out = 4 * width, .kernel = 1, .activation = relu, .residual = shortcut(name, x, in, 4 * width, stride)});
  }

 private:
  Edge shortcut(const std::string& name, Edge x, int64_t in, int64_t out, int stride) {
    if (in == out && stride == 1) return x;
    return conv(name + ".downsample.0", name + ".downsample.1", x, {.out = out, .kernel = 1, .stride = stride});
  }
};

struct Form {
  const char* name;
  bool bottleneck;
  std::array<int, 4> blocks;  // of each stage
};
constexpr Form forms[] = {{"resnet18", false, {2, 2, 2, 2}},
                          {"resnet34", false, {3, 4, 6, 3}},
                          {"resnet50", true, {3, 4, 6, 3}},
                          {"resnet101", true, {3, 4, 23, 3}}};

// Appends stage `number` of 1 to 4. stride: of its first block.
Edge make_stage(BackboneLayers layers, Edge x, const Form& form, int number, int stride, int dilation = 1) {
  layers.stage = number;
  Residual residual{layers, dilation};
  const int64_t width = int64_t(32) << number, out = form.bottleneck ? 4 * width : width;
  int64_t channels = number == 1 ? 64 : out / 2;
  for (int block = 0; block < form.blocks[size_t(number) - 1]; ++block, stride = 1) {
    const std::string name = "layer" + std::to_string(number) + "." + std::to_string(block);
    x = form.bottleneck ? residual.bottleneck(name, x, channels, width, stride)
                        : residual.basic(name, x, channels, width, stride);
    channels = out;
  }
  return x;
}

}  // namespace

// ResNet for CIFAR with 6 n + 2 layers (He et al. 2016, section 4.2) and projection shortcuts, n = 3.
std::vector<Head> resnet20(Graph& graph, Edge x, const Config::Model& model, size_t /*form*/) {
  Residual residual{{graph}};
  x = conv(graph, "conv1", x, {.out = 16, .kernel = 3, .pad = 1, .norm = "bn1", .activation = relu});
  int64_t channels = 16;
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < 3; ++block) {
      const int64_t out = int64_t(16) << stage;
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      x = residual.basic(name, x, channels, out, stage > 0 && block == 0 ? 2 : 1);
      channels = out;
    }
  }
  return {{linear(graph, "fc", global_pool(graph, "avgpool", x), {.out = model.classes, .gives_logits = true})}};
}

// The form that model.name names.
std::vector<Head> resnet(Graph& graph, Edge images, const Config::Model& model, size_t form) {
  const Edge x = global_pool(graph, "avgpool", resnet_stages({graph}, images, model.name, form, 4).back());
  return {{linear(graph, "fc", x, {.out = model.classes, .gives_logits = true})}};
}

std::vector<Edge> resnet_stages(BackboneLayers layers, Edge x, const std::string& network, size_t /*form*/, int count) {
  const Form& form = *std::ranges::find(forms, network, &Form::name);
  x = layers.conv("conv1", "bn1", x, {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .activation = relu});
  x = pool(layers.graph, layers.prefix + "maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  std::vector<Edge> outputs;
  for (int number = 1; number <= count; ++number)
    outputs.push_back(x = make_stage(layers, x, form, number, number > 1 ? 2 : 1));
  return outputs;
}

Edge make_last_stage(Graph& graph, Edge x, const Config::Model& model, const std::string& prefix, int stride,
                     int dilation) {
  const Form* const form = std::ranges::find(forms, model.backbone, &Form::name);
  REQUIRE_USAGE(form != std::end(forms), "use a ResNet, or set model.name to faster_rcnn or retinanet", model.name,
                " needs the last stage of a ResNet, but model.backbone is ", model.backbone);
  return make_stage(backbone_layers(graph, model, prefix), x, *form, 4, stride, dilation);
}

}  // namespace octet
