// RetinaNet (Lin et al., "Focal loss for dense object detection", ICCV 2017), with torchvision's names. Levels of
// strides 8 to 128: three of the backbone, and two more from the last of them. A recipe for small objects begins at
// stride 4.
#include <cmath>

#include "src/models/backbone.h"
#include "src/models/detectors.h"

namespace octet {
namespace {

constexpr size_t most_extra = 2;  // levels beyond those of the backbone

// The stages of the backbone from the finest stride on.
int own_levels(const Config::Model& model) { return model.finest_stride == 4 ? 4 : 3; }

struct RetinaNet {
  Graph& graph;
  const Config& config;

  std::vector<Edge> levels(Edge images, size_t count) {
    const std::vector<Edge> stages = make_backbone(graph, images, config.model, "backbone.body.");
    const int64_t channels = config.model.neck_channels, own = own_levels(config.model);
    std::vector<Edge> outputs = make_pyramid(graph, {stages.end() - own, stages.end()}, "backbone.fpn.", channels);
    const ConvOptions extra{.out = channels, .kernel = 3, .stride = 2, .pad = 1, .init = Init::lecun_uniform};
    if (count > size_t(own)) outputs.push_back(conv(graph, "backbone.fpn.extra_blocks.p6", outputs.back(), extra));
    if (count > size_t(own) + 1)
      outputs.push_back(
          conv(graph, "backbone.fpn.extra_blocks.p7",
               pool(graph, "backbone.fpn.relu", outputs.back(), {.kernel = 1, .stride = 1, .rectify = true}), extra));
    return outputs;
  }

  // The convolutions of one head at one level. All levels share them.
  Edge tower(const std::string& head, const std::string& predictor, Edge x, size_t level, int64_t out, Init bias) {
    const std::string suffix = say("@", level);
    ConvOptions options{.out = config.model.neck_channels,
                        .kernel = 3,
                        .pad = 1,
                        .activation = Activation::relu,
                        .init = Init::normal_001};
    for (int64_t i = 0; i < config.model.head_depth; ++i) {
      options.layer = head + ".conv." + std::to_string(i) + ".0";
      x = conv(graph, options.layer + suffix, x, options);
    }
    options.out = out;
    options.activation = Activation::none;
    options.bias_init = bias;
    options.layer = head + "." + predictor;
    options.gives_logits = true;
    options.of_classes = predictor == "cls_logits";
    return conv(graph, options.layer + suffix, x, options);
  }
};

// The anchors of each level: three sizes an octave.
std::vector<float> sizes_of(int64_t base) {
  const auto size = float(base);
  return {size, std::floor(size * 1.2599210f), std::floor(size * 1.5874011f)};
}

}  // namespace

AnchorRule retinanet_anchors(const Config& config) {
  const Config::Model& model = config.model;
  const int own = own_levels(model);
  std::vector<int64_t> bases = model.anchor_sizes;
  for (size_t i = 0; model.anchor_sizes.empty() && i < size_t(own) + most_extra; ++i)
    bases.push_back(4 * model.finest_stride << i);
  REQUIRE_USAGE(model.finest_stride == 4 || model.finest_stride == 8, "set it to 8, or to 4 for small objects",
                "model.finest_stride is ", model.finest_stride);
  REQUIRE_USAGE(bases.size() >= size_t(own) && bases.size() <= size_t(own) + most_extra,
                say("give ", own, " to ", own + int(most_extra), " sizes"), "model.anchor_sizes has ", bases.size(),
                " entries for levels from stride ", model.finest_stride, " on");
  AnchorRule rule{.positive = DenseLossOptions{}.positive};
  for (size_t i = 0; i < bases.size(); ++i)
    rule.levels.push_back({.stride = float(model.finest_stride << i),
                           .sizes = sizes_of(bases[i]),
                           .ratios = {model.anchor_ratios.begin(), model.anchor_ratios.end()}});
  return rule;
}

void retinanet(Graph& graph, Edge images, const Config& config, bool training) {
  const Config::Model& model = config.model;
  RetinaNet net{graph, config};
  const std::vector<AnchorLevel> anchors_of_levels = retinanet_anchors(config).levels;
  const std::vector<Edge> features = net.levels(images, anchors_of_levels.size());
  std::vector<DenseLevel> levels(features.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i].anchors = anchors_of_levels[i];
    const int64_t anchors = levels[i].anchors.per_pixel();
    levels[i].logits =
        net.tower("head.classification_head", "cls_logits", features[i], i, anchors * model.classes, Init::rare);
    levels[i].deltas = net.tower("head.regression_head", "bbox_reg", features[i], i, anchors * 4, Init::zero);
  }
  if (training)
    dense_loss(graph, "loss",
               {.levels = levels, .classes = int(model.classes), .class_name = "loss_class", .box_name = "loss_box"});
  else
    detect(graph, {detect_options(config), levels});
}

}  // namespace octet
