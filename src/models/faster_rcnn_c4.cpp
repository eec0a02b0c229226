// Faster R-CNN (Ren et al., NIPS 2015) on one map of stride 16, with the last stage of the ResNet as the head of each
// region (He et al., "Deep residual learning for image recognition", CVPR 2016, appendix A). Regions are pooled to
// 14 x 14, with samples as detectron2 has them. Names are those of the detector with a feature pyramid.
#include "src/models/backbone.h"
#include "src/models/two_stage.h"

namespace octet {
namespace {

constexpr int level = 4;  // stride 16
constexpr RegionCounts counts{
    .before_nms = 12000, .after_nms = 2000, .before_nms_test = 6000, .after_nms_test = 1000, .samples = 512};

RpnMap map_of(const Config::Model& model, Edge map = {}) {
  return {map, 1 << level, or_default(model.anchor_sizes, {32, 64, 128, 256, 512})};
}

}  // namespace

AnchorRule faster_rcnn_c4_anchors(const Config& config) { return rpn_anchors(config, {map_of(config.model)}); }

void faster_rcnn_c4(Graph& graph, Edge images, const Config& config, bool training) {
  const Config::Model& model = config.model;
  const Edge map = make_backbone(graph, images, model, "backbone.body.", 3).back();
  const Regions regions = make_rpn(graph, config, training, {map_of(model, map)}, 512, level, level, counts);

  Edge x = roi_pool(graph, "roi_heads.box_roi_pool", {map}, regions,
                    {.bins = 14, .sampling = 0, .aligned = true, .strides = {1 << level}});
  x = make_last_stage(graph, x, model, "roi_heads.box_head.", 2, 1);
  make_box_predictor(graph, global_pool(graph, "roi_heads.box_head.avgpool", x), config, training, regions);
}

}  // namespace octet
