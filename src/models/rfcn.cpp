// R-FCN (Dai et al., "R-FCN: Object detection via region-based fully convolutional networks", NIPS 2016): each bin of a
// region reads maps of its own, and the bins vote. The last stage of the ResNet keeps the stride of 16, with dilated
// convolutions. One box serves all classes.
#include "src/models/backbone.h"
#include "src/models/two_stage.h"

namespace octet {
namespace {

constexpr int level = 4;  // stride 16
constexpr int bins = 7;
constexpr RegionCounts counts{
    .before_nms = 6000, .after_nms = 300, .before_nms_test = 6000, .after_nms_test = 300, .samples = 128};

RpnMap map_of(const Config::Model& model, Edge map = {}) {
  return {map, 1 << level, or_default(model.anchor_sizes, {128, 256, 512})};
}

// The mean over the bins of a region: `out` numbers for each.
Edge vote(Graph& graph, const std::string& name, Edge x, const Regions& regions, int64_t out, bool of_classes) {
  const Edge maps = conv(graph, name, x,
                         {.out = bins * bins * out,
                          .kernel = 1,
                          .init = Init::normal_001,
                          .gives_logits = true,
                          .of_classes = of_classes});
  const Edge pooled = roi_pool(graph, name + "_pool", {maps}, regions,
                               {.kind = RoiKind::position_sensitive, .bins = bins, .strides = {1 << level}});
  return global_pool(graph, name + "_vote", pooled);
}

}  // namespace

AnchorRule rfcn_anchors(const Config& config) { return rpn_anchors(config, {map_of(config.model)}); }

void rfcn(Graph& graph, Edge images, const Config& config, bool training) {
  const Config::Model& model = config.model;
  const Edge map = make_backbone(graph, images, model, "backbone.body.", 3).back();
  const Regions regions = make_rpn(graph, config, training, {map_of(model, map)}, 512, level, level, counts);

  Edge x = make_last_stage(graph, map, model, "backbone.body.", 1, 2);
  x = conv(graph, "conv_new_1", x, {.out = model.head_channels, .kernel = 1, .activation = Activation::relu});
  const Edge logits = vote(graph, "rfcn_cls", x, regions, model.classes + 1, true);
  finish_regions(graph, logits, vote(graph, "rfcn_bbox", x, regions, 4, false), config, training, regions);
}

}  // namespace octet
