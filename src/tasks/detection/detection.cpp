// Detection: each image has boxes with a class each. Networks are compared by average precision.
#include "src/models/detectors.h"
#include "src/models/unread_keys.h"
#include "src/tasks/detection/judge.h"
#include "src/tasks/task.h"

namespace octet {
namespace {

Graph network(const Config& config, const Policy& policy, int64_t height, int64_t width, bool training) {
  refuse_unread_keys(config);
  Graph graph(policy);
  make_detector(graph, input(graph, {height, width}), config, training);
  return graph;
}

DetectionFigures coco_figures(const Annotations& truth, const std::vector<Detection>& found) {
  return judge_detections("coco", truth, found);
}
DetectionFigures voc_figures(const Annotations& truth, const std::vector<Detection>& found) {
  return judge_detections("voc", truth, found);
}

}  // namespace

extern const Task coco_detection = {.name = "detection", .network = network, .judge = "AP", .figures = coco_figures};
extern const Task voc_detection = {.name = "detection", .network = network, .judge = "mAP", .figures = voc_figures};

}  // namespace octet
