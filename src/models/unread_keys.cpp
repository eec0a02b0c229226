#include "src/models/unread_keys.h"

#include <algorithm>
#include <string_view>

#include "src/config/keys.h"
#include "src/models/detectors.h"
#include "src/models/models.h"

namespace octet {
namespace {

struct Readers {
  std::string_view key;               // with a dot behind it: all keys of the section
  std::vector<std::string> networks;  // that read it
  bool covers(std::string_view path) const { return key.ends_with('.') ? path.starts_with(key) : path == key; }
};

std::vector<Readers> readers() {
  const std::vector<std::string> detectors = detector_names(), two_stage = {"faster_rcnn", "faster_rcnn_c4", "rfcn"};
  std::vector<std::string> classifiers = model_names();
  std::erase_if(classifiers, is_detector);
  return {{"model.dropout", {"alexnet", "inception_v3", "efficientnet_lite0"}},
          {"model.auxiliary_weight", {"inception_v3"}},
          {"model.backbone", detectors},
          {"model.initial_backbone", detectors},
          {"model.norm", detectors},
          {"model.freeze_stages", detectors},
          {"model.norm_epsilon", detectors},
          {"model.neck_channels", {"faster_rcnn", "retinanet"}},
          {"model.head_depth", {"retinanet"}},
          {"model.finest_stride", {"retinanet"}},
          {"model.head_channels", two_stage},
          {"rpn.", two_stage},
          {"roi.", two_stage},
          {"model.anchor_sizes", detectors},
          {"model.anchor_ratios", detectors},
          {"detect.", detectors},
          {"train.freeze", classifiers},
          {"train.label_smoothing", classifiers}};
}

}  // namespace

void refuse_unread_keys(const Config& config) {
  const std::vector<std::string> known = model_names();
  if (std::ranges::find(known, config.model.name) == known.end()) return;  // make_model() says so
  Config defaults;
  if (config.model.dropout == 0) defaults.model.dropout = 0;  // true of every network
  for (const Readers& of : readers()) {
    if (std::ranges::find(of.networks, config.model.name) != of.networks.end()) continue;
    const auto set = first_difference(defaults, config, [&](std::string_view path) { return of.covers(path); });
    REQUIRE_USAGE(!set, "leave it out, or set model.name to one of: " + joined(of.networks, ", "), config.file, ": `",
                  set->now, "` is set, but ", config.model.name, " does not read it");
  }
}

}  // namespace octet
