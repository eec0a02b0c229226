#include "src/graph/models.h"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr Activation relu = Activation::relu, relu6 = Activation::relu6, linear = Activation::none;

struct Residual {
  Graph& graph;

  // Two 3x3 convolutions (He et al. 2016, figure 5 left).
  Edge basic(const std::string& name, Edge x, int64_t in, int64_t out, int stride) {
    const Edge y =
        graph.conv(name + ".conv1", x,
                   {.out = out, .kernel = 3, .stride = stride, .pad = 1, .norm = name + ".bn1", .activation = relu});
    return graph.conv(name + ".conv2", y,
                      {.out = out,
                       .kernel = 3,
                       .pad = 1,
                       .norm = name + ".bn2",
                       .activation = relu,
                       .residual = shortcut(name, x, in, out, stride)});
  }

  // 1x1, 3x3 with the stride, 1x1 (figure 5 right; the stride as torchvision places it).
  Edge bottleneck(const std::string& name, Edge x, int64_t in, int64_t width, int stride) {
    Edge y = graph.conv(name + ".conv1", x, {.out = width, .kernel = 1, .norm = name + ".bn1", .activation = relu});
    y = graph.conv(name + ".conv2", y,
                   {.out = width, .kernel = 3, .stride = stride, .pad = 1, .norm = name + ".bn2", .activation = relu});
    return graph.conv(name + ".conv3", y,
                      {.out = 4 * width,
                       .kernel = 1,
                       .norm = name + ".bn3",
                       .activation = relu,
                       .residual = shortcut(name, x, in, 4 * width, stride)});
  }

 private:
  Edge shortcut(const std::string& name, Edge x, int64_t in, int64_t out, int stride) {
    if (in == out && stride == 1) return x;
    return graph.conv(
        name + ".downsample.0", x,
        {.out = out, .kernel = 1, .stride = stride, .norm = name + ".downsample.1", .activation = linear});
  }
};

// ResNet for CIFAR, 6 n + 2 layers (section 4.2 of He et al. 2016), with projection shortcuts.
Edge resnet_cifar(Graph& graph, Edge x, int n, int64_t classes) {
  Residual residual{graph};
  x = graph.conv("conv1", x, {.out = 16, .kernel = 3, .pad = 1, .norm = "bn1", .activation = relu});
  int64_t channels = 16;
  for (int stage = 0; stage < 3; ++stage) {
    for (int block = 0; block < n; ++block) {
      const int64_t out = int64_t(16) << stage;
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      x = residual.basic(name, x, channels, out, stage > 0 && block == 0 ? 2 : 1);
      channels = out;
    }
  }
  return graph.linear("fc", graph.global_pool("avgpool", x), {.out = classes, .gives_logits = true});
}

Edge resnet_imagenet(Graph& graph, Edge x, bool bottleneck, std::array<int, 4> blocks, int64_t classes) {
  Residual residual{graph};
  x = graph.conv("conv1", x, {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .norm = "bn1", .activation = relu});
  x = graph.pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  int64_t channels = 64;
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const int64_t width = int64_t(64) << stage;
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      x = bottleneck ? residual.bottleneck(name, x, channels, width, stride)
                     : residual.basic(name, x, channels, width, stride);
      channels = bottleneck ? 4 * width : width;
    }
  }
  return graph.linear("fc", graph.global_pool("avgpool", x), {.out = classes, .gives_logits = true});
}

// MobileNetV2 (Sandler et al. 2018). The CIFAR form, for images up to 32 pixels, keeps the resolution in the stem and
// in the second stage. Without torchvision's dropout of 0.2 before the classifier, which the paper does not have.
Edge mobilenet_v2(Graph& graph, Edge x, bool cifar, int64_t classes) {
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
    return graph.conv(name + "." + std::to_string(first), from, options);
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
  return graph.linear("classifier.1", graph.global_pool("avgpool", x),
                      {.out = classes, .init = Init::normal_001, .gives_logits = true});
}

// The network of WAGE (Wu et al. 2018, section 4.2): no norm; for images of 32 pixels.
std::vector<Head> vgg7(Graph& graph, Edge x, int64_t classes) {
  int index = 0;
  for (int64_t width : {128, 256, 512}) {
    for (int layer = 0; layer < 2; ++layer)
      x = graph.conv("features." + std::to_string(index++), x,
                     {.out = width, .kernel = 3, .pad = 1, .activation = relu});
    x = graph.pool("features." + std::to_string(index++), x, {.kernel = 2, .stride = 2});
  }
  x = graph.linear("classifier.0", x, {.out = 1024, .activation = relu});
  return {{graph.linear("classifier.1", x, {.out = classes, .gives_logits = true})}};
}

}  // namespace

Graph make_model(const Config::Model& model, int64_t height, int64_t width, float label_smoothing) {
  const std::string& name = model.name;
  const int64_t classes = model.classes, side = std::max(height, width);
  Graph graph;
  const Edge x = graph.input(height, width, 3);
  std::vector<Head> heads;
  if (name == "resnet20")
    heads = {{resnet_cifar(graph, x, 3, classes)}};
  else if (name == "resnet18")
    heads = {{resnet_imagenet(graph, x, false, {2, 2, 2, 2}, classes)}};
  else if (name == "resnet34")
    heads = {{resnet_imagenet(graph, x, false, {3, 4, 6, 3}, classes)}};
  else if (name == "resnet50")
    heads = {{resnet_imagenet(graph, x, true, {3, 4, 6, 3}, classes)}};
  else if (name == "resnet101")
    heads = {{resnet_imagenet(graph, x, true, {3, 4, 23, 3}, classes)}};
  else if (name == "mobilenet_v2")
    heads = {{mobilenet_v2(graph, x, side <= 32, classes)}};
  else if (name == "alexnet" || name == "alexnet_bn")
    heads = alexnet(graph, x, name == "alexnet_bn", side, model);
  else if (name == "vgg7")
    heads = vgg7(graph, x, classes);
  else if (name == "inception_v3")
    heads = inception_v3(graph, x, side, model);
  else
    throw UsageError(
        __FILE__, __LINE__, say("model.name `", name, "` is not known"),
        "use one of: resnet20, resnet18, resnet34, resnet50, resnet101, mobilenet_v2, alexnet, alexnet_bn, "
        "inception_v3, vgg7");
  const bool drops = name == "alexnet" || name == "inception_v3";
  REQUIRE_USAGE(drops || model.dropout == Config::Model{}.dropout || model.dropout == 0,
                "leave it out; alexnet and inception_v3 have dropout", "model.dropout is ", model.dropout, ", but ",
                name, " has none");
  graph.classify(heads, label_smoothing);
  return graph;
}

}  // namespace octet
