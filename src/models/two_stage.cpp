#include "src/models/two_stage.h"

namespace octet {
namespace {

AnchorLevel anchors_on(const Config& config, const RpnMap& map) {
  return {.stride = float(map.stride),
          .sizes = {map.sizes.begin(), map.sizes.end()},
          .ratios = {config.model.anchor_ratios.begin(), config.model.anchor_ratios.end()}};
}

// The answers for the anchors of one map. All maps share the layers.
DenseLevel answers(Graph& graph, const Config& config, const RpnMap& on, size_t number, int64_t channels) {
  const std::string suffix = say("@", number);
  DenseLevel level;
  level.anchors = anchors_on(config, on);
  const Edge x = conv(graph, "rpn.head.conv.0.0" + suffix, on.map,
                      {.out = channels,
                       .kernel = 3,
                       .pad = 1,
                       .activation = Activation::relu,
                       .init = Init::normal_001,
                       .layer = "rpn.head.conv.0.0"});
  const auto predictor = [&](const std::string& name, int64_t out) {
    return conv(graph, name + suffix, x,
                {.out = out, .kernel = 1, .init = Init::normal_001, .layer = name, .gives_logits = true});
  };
  level.logits = predictor("rpn.head.cls_logits", level.anchors.per_pixel());
  level.deltas = predictor("rpn.head.bbox_pred", level.anchors.per_pixel() * 4);
  return level;
}

}  // namespace

AnchorRule rpn_anchors(const Config& config, const std::vector<RpnMap>& maps) {
  AnchorRule rule{.positive = float(config.rpn.positive)};
  for (const RpnMap& map : maps) rule.levels.push_back(anchors_on(config, map));
  return rule;
}

Regions make_rpn(Graph& graph, const Config& config, bool training, const std::vector<RpnMap>& maps, int64_t channels,
                 int lowest_level, int highest_level, const RegionCounts& counts) {
  const Config::Rpn& rpn = config.rpn;
  const Config::Roi& roi = config.roi;
  REQUIRE_USAGE(rpn.negative <= rpn.positive && roi.negative <= roi.positive,
                "let rpn.negative and roi.negative be at most rpn.positive and roi.positive", "an overlap of ",
                rpn.negative, " or ", roi.negative, " is background, but one of ", rpn.positive, " or ", roi.positive,
                " is an object");
  std::vector<DenseLevel> levels;
  for (size_t i = 0; i < maps.size(); ++i) levels.push_back(answers(graph, config, maps[i], i, channels));
  if (training)
    dense_loss(graph, "rpn.loss",
               {.levels = levels,
                .positive = float(rpn.positive),
                .negative = float(rpn.negative),
                .alpha = -1,
                .gamma = 0,
                .beta = 1.0f / 9,
                .samples = rpn.samples,
                .fraction = float(rpn.fraction),
                .class_name = "loss_objectness",
                .box_name = "loss_rpn_box"});
  const auto chosen = [](int64_t wanted, int64_t own) { return wanted > 0 ? wanted : own; };
  return propose(graph, "rpn.proposals",
                 {.levels = levels,
                  .before_nms = training ? chosen(rpn.before_nms, counts.before_nms)
                                         : chosen(rpn.before_nms_test, counts.before_nms_test),
                  .after_nms = training ? chosen(rpn.after_nms, counts.after_nms)
                                        : chosen(rpn.after_nms_test, counts.after_nms_test),
                  .overlap = float(rpn.nms),
                  .lowest_level = lowest_level,
                  .highest_level = highest_level,
                  .training = training,
                  .samples = chosen(roi.samples, counts.samples),
                  .fraction = float(roi.fraction),
                  .positive = float(roi.positive),
                  .negative = float(roi.negative)});
}

void make_box_predictor(Graph& graph, Edge x, const Config& config, bool training, const Regions& regions) {
  const int64_t choices = config.model.classes + 1;
  const Edge logits = linear(graph, "roi_heads.box_predictor.cls_score", x,
                             {.out = choices, .init = Init::normal_001, .gives_logits = true});
  const Edge deltas = linear(graph, "roi_heads.box_predictor.bbox_pred", x,
                             {.out = choices * 4, .init = Init::normal_0001, .gives_logits = true});
  finish_regions(graph, logits, deltas, config, training, regions);
}

void finish_regions(Graph& graph, Edge logits, Edge deltas, const Config& config, bool training,
                    const Regions& regions) {
  if (training)
    roi_loss(graph, logits, deltas, regions,
             {.hard = config.roi.hard, .class_name = "loss_class", .box_name = "loss_box"});
  else
    detect_regions(graph, logits, deltas, regions, detect_options(config));
}

}  // namespace octet
