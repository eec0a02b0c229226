#include "src/models/detectors.h"

#include <algorithm>

namespace octet {

// To add a detector, write its file, declare its function here, and add a row below.
using BuildDetector = void(Graph&, Edge images, const Config&, bool training);
BuildDetector faster_rcnn, faster_rcnn_c4, retinanet, rfcn;
using Anchors = AnchorRule(const Config&);
Anchors faster_rcnn_anchors, faster_rcnn_c4_anchors, retinanet_anchors, rfcn_anchors;

namespace {

struct Row {
  const char* name;
  BuildDetector* build;
  Anchors* anchors;
};
constexpr Row rows[] = {{"faster_rcnn", faster_rcnn, faster_rcnn_anchors},
                        {"faster_rcnn_c4", faster_rcnn_c4, faster_rcnn_c4_anchors},
                        {"retinanet", retinanet, retinanet_anchors},
                        {"rfcn", rfcn, rfcn_anchors}};

}  // namespace

std::vector<std::string> detector_names() {
  std::vector<std::string> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

bool is_detector(const std::string& model_name) {
  return std::ranges::find(rows, model_name, &Row::name) != std::end(rows);
}

bool freezes_backbone(const Config::Model& model) {
  return is_detector(model.name) && (model.norm == "frozen" || model.freeze_stages > 0);
}

AnchorRule anchors_of(const Config& config) {
  return std::ranges::find(rows, config.model.name, &Row::name)->anchors(config);
}

void make_detector(Graph& graph, Edge images, const Config& config, bool training) {
  std::ranges::find(rows, config.model.name, &Row::name)->build(graph, images, config, training);
}

DetectOptions detect_options(const Config& config) {
  return {.classes = int(config.model.classes),
          .score = float(config.detect.score),
          .overlap = float(config.detect.nms),
          .detections = config.detect.detections};
}

}  // namespace octet
