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
  for (size_t i = 0; i < maps.size(); ++i) maps[i].map = levels[i];
  const Regions regions =
      make_rpn(graph, config, training, maps, model.neck_channels, lowest_level, highest_level, counts);

  Edge x = graph.roi_pool("roi_heads.box_roi_pool", pooled, regions, {.strides = {4, 8, 16, 32}});
  const LinearOptions hidden{.out = model.head_channels, .init = Init::lecun_uniform, .activation = Activation::relu};
  x = graph.linear("roi_heads.box_head.fc6", x, hidden);
  x = graph.linear("roi_heads.box_head.fc7", x, hidden);
  make_box_predictor(graph, x, config, training, regions);
}

}  // namespace octet
