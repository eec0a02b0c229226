// ResNet (He et al., "Deep residual learning for image recognition", CVPR 2016), with torchvision's names.
#include <algorithm>
#include <array>

#include "src/config/keys.h"
#include "src/models/backbone.h"
#include "src/models/models.h"

namespace octet {
namespace {

constexpr Activation relu = Activation::relu, linear = Activation::none;

struct Residual {
  Graph& graph;
  int dilation = 1;  // of the 3x3 convolutions

  // Two 3x3 convolutions (He et al. 2016, figure 5 left).
  Edge basic(const std::string& name, Edge x, int64_t in, int64_t out, int stride) {
    const Edge y = graph.conv(name + ".conv1", x,
                              {.out = out,
                               .kernel = 3,
                               .stride = stride,
                               .pad = dilation,
                               .dilation = dilation,
                               .norm = name + ".bn1",
                               .activation = relu});
    return graph.conv(name + ".conv2", y,
                      {.out = out,
                       .kernel = 3,
                       .pad = dilation,
                       .dilation = dilation,
                       .norm = name + ".bn2",
                       .activation = relu,
                       .residual = shortcut(name, x, in, out, stride)});
  }

  // 1x1, 3x3, 1x1 convolutions (figure 5 right). The 3x3 convolution has the stride, as in torchvision.
  Edge bottleneck(const std::string& name, Edge x, int64_t in, int64_t width, int stride) {
    Edge y = graph.conv(name + ".conv1", x, {.out = width, .kernel = 1, .norm = name + ".bn1", .activation = relu});
    y = graph.conv(name + ".conv2", y,
                   {.out = width,
                    .kernel = 3,
                    .stride = stride,
                    .pad = dilation,
                    .dilation = dilation,
                    .norm = name + ".bn2",
                    .activation = relu});
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

// ResNet for CIFAR with 6 n + 2 layers (He et al. 2016, section 4.2) and projection shortcuts.
std::vector<Head> cifar(Graph& graph, Edge x, int n, int64_t classes) {
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
  return {{graph.linear("fc", graph.global_pool("avgpool", x), {.out = classes, .gives_logits = true})}};
}

struct Form {
  const char* name;
  bool bottleneck;
  std::array<int, 4> blocks;  // of each stage
};
constexpr Form forms[] = {{"resnet18", false, {2, 2, 2, 2}},
                          {"resnet34", false, {3, 4, 6, 3}},
                          {"resnet50", true, {3, 4, 6, 3}},
                          {"resnet101", true, {3, 4, 23, 3}}};

// Appends stage `number` of 0 to 3. stride: of its first block.
Edge make_stage(Graph& graph, Edge x, const std::string& prefix, const Form& form, int number, int stride,
                int dilation = 1) {
  Residual residual{graph, dilation};
  const int64_t width = int64_t(64) << number, out = form.bottleneck ? 4 * width : width;
  int64_t channels = number == 0 ? 64 : out / 2;
  for (int block = 0; block < form.blocks[size_t(number)]; ++block, stride = 1) {
    const std::string name = prefix + "layer" + std::to_string(number + 1) + "." + std::to_string(block);
    x = form.bottleneck ? residual.bottleneck(name, x, channels, width, stride)
                        : residual.basic(name, x, channels, width, stride);
    channels = out;
  }
  return x;
}

// The outputs of the first `count` stages.
std::vector<Edge> stages(Graph& graph, Edge x, const std::string& prefix, const Form& form, int count) {
  x = graph.conv(prefix + "conv1", x,
                 {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .norm = prefix + "bn1", .activation = relu});
  x = graph.pool(prefix + "maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
  std::vector<Edge> outputs;
  for (int number = 0; number < count; ++number)
    outputs.push_back(x = make_stage(graph, x, prefix, form, number, number > 0 ? 2 : 1));
  return outputs;
}

const Form& backbone_form(const std::string& name) {
  const Form* const form = std::ranges::find(forms, name, &Form::name);
  REQUIRE_USAGE(form != std::end(forms), "use one of: " + joined(backbone_names(), ", "), "model.backbone `", name,
                "` is not known");
  return *form;
}

std::vector<Head> imagenet(Graph& graph, Edge images, const Form& form, int64_t classes) {
  const Edge x = graph.global_pool("avgpool", stages(graph, images, "", form, 4).back());
  return {{graph.linear("fc", x, {.out = classes, .gives_logits = true})}};
}

}  // namespace

std::vector<Head> resnet20(Graph& graph, Edge images, const Config::Model& model) {
  return cifar(graph, images, 3, model.classes);
}
std::vector<Head> resnet18(Graph& graph, Edge images, const Config::Model& model) {
  return imagenet(graph, images, forms[0], model.classes);
}
std::vector<Head> resnet34(Graph& graph, Edge images, const Config::Model& model) {
  return imagenet(graph, images, forms[1], model.classes);
}
std::vector<Head> resnet50(Graph& graph, Edge images, const Config::Model& model) {
  return imagenet(graph, images, forms[2], model.classes);
}
std::vector<Head> resnet101(Graph& graph, Edge images, const Config::Model& model) {
  return imagenet(graph, images, forms[3], model.classes);
}

std::vector<std::string> backbone_names() {
  std::vector<std::string> names;
  for (const Form& form : forms) names.emplace_back(form.name);
  return names;
}

std::vector<Edge> make_backbone(Graph& graph, Edge images, const std::string& name, const std::string& prefix,
                                int count) {
  return stages(graph, images, prefix, backbone_form(name), count);
}

Edge make_last_stage(Graph& graph, Edge x, const std::string& name, const std::string& prefix, int stride,
                     int dilation) {
  return make_stage(graph, x, prefix, backbone_form(name), 3, stride, dilation);
}

}  // namespace octet
