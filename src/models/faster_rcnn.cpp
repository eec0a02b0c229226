// Faster R-CNN (Ren et al., NIPS 2015) on a feature pyramid (Lin et al., "Feature pyramid networks for object
// detection", CVPR 2017), with torchvision's names. Regions are proposed on levels of strides 4 to 64, the last of
// which is optional, and pooled from those of strides 4 to 32.
#include "src/models/backbone.h"
#include "src/models/two_stage.h"

namespace octet {
namespace {

constexpr int lowest_level = 2, highest_level = 5;  // of the backbone: strides 4 to 32
constexpr RegionCounts counts{
    .before_nms = 2000, .after_nms = 2000, .before_nms_test = 1000, .after_nms_test = 1000, .samples = 512};

std::vector<RpnMap> maps_of(const Config::Model& model) {
  std::vector<RpnMap> maps;
  for (const int64_t size : or_default(model.anchor_sizes, {32, 64, 128, 256, 512}))
    maps.push_back({{}, int64_t(1) << (lowest_level + int(maps.size())), {size}});
  return maps;
}

}  // namespace

AnchorRule faster_rcnn_anchors(const Config& config) { return rpn_anchors(config, maps_of(config.model)); }

void faster_rcnn(Graph& graph, Edge images, const Config& config, bool training) {
  const Config::Model& model = config.model;
  std::vector<RpnMap> maps = maps_of(model);
  std::vector<Edge> levels =
      make_pyramid(graph, make_backbone(graph, images, model, "backbone.body."), "backbone.fpn.", model.neck_channels);
  const std::vector<Edge> pooled = levels;
  REQUIRE_USAGE(maps.size() == levels.size() || maps.size() == levels.size() + 1,
                say("give ", levels.size(), " or ", levels.size() + 1, " sizes, of the levels from stride 4 on"),
                "model.anchor_sizes has ", maps.size(), " entries");
  if (maps.size() > levels.size())
    levels.push_back(pool(graph, "backbone.fpn.extra_blocks", levels.back(), {.kernel = 1, .stride = 2}));
  for (size_t i = 0; i < maps.size(); ++i) maps[i].map = levels[i];
  const Regions regions =
      make_rpn(graph, config, training, maps, model.neck_channels, lowest_level, highest_level, counts);

  Edge x = roi_pool(graph, "roi_heads.box_roi_pool", pooled, regions, {.strides = {4, 8, 16, 32}});
  const ConvOptions hidden{.out = model.head_channels, .activation = Activation::relu, .init = Init::lecun_uniform};
  x = linear(graph, "roi_heads.box_head.fc6", x, hidden);
  x = linear(graph, "roi_heads.box_head.fc7", x, hidden);
  make_box_predictor(graph, x, config, training, regions);
}

}  // namespace octet
