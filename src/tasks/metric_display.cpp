#include "src/tasks/metric_display.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/base/text.h"

namespace octet {
namespace {

const MetricDisplay displays[] = {
    {"top1", "top-1", "Top-1 accuracy", true},
    {"top5", "top-5", "Top-5 accuracy", true, false},
    {"AP", "AP", "Average precision", true},
    {"AP50", "AP50", "Average precision at an overlap of 0.5", true},
    {"mAP", "mAP", "Mean average precision", true},
    {"mAP11", "mAP11", "Mean average precision, 11 points", true, false},
    {"AP75", "AP75", "Average precision at an overlap of 0.75", true, false},
    {"APs", "APs", "Average precision of small objects", true, false},
    {"APm", "APm", "Average precision of medium objects", true, false},
    {"APl", "APl", "Average precision of large objects", true, false},
    {"AR1", "AR1", "Average recall of one detection", true, false},
    {"AR10", "AR10", "Average recall of 10 detections", true, false},
    {"AR100", "AR100", "Average recall of 100 detections", true, false},
    {"ARs", "ARs", "Average recall of small objects", true, false},
    {"ARm", "ARm", "Average recall of medium objects", true, false},
    {"ARl", "ARl", "Average recall of large objects", true, false},
    {"loss", "loss", "Loss"},
    {"loss_objectness", "objectness loss", "Objectness loss", false, false},
    {"loss_rpn_box", "proposal loss", "Box loss of proposals", false, false},
    {"anchors_found", "anchors", "Anchors of an image that find an object"},
    {"regions_found", "regions", "Regions of an image that find an object"},
    {"loss_class", "class loss", "Class loss"},
    {"loss_box", "box loss", "Box loss"},
    {"learning_rate", "learning rate", "Learning rate"},
    {"images_per_second", "images / s", "Images per second"},
};

}  // namespace

std::string MetricDisplay::text(double value) const {
  if (!std::isfinite(value)) return "not finite";
  if (share && value < 0) return "undefined";  // an average precision without objects
  return share ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.3f}", value);
}

MetricDisplay display_of(const std::string& name) {
  for (const MetricDisplay& display : displays)
    if (display.name == name) return display;
  return {name, name, name};
}

std::vector<std::string> show_each(const Scalars& figures, int digits, bool all) {
  std::vector<std::string> texts;
  for (const Scalar& figure : figures) {
    const MetricDisplay display = display_of(figure.name);
    if (!display.main && !all) continue;
    texts.push_back(display.share && figure.value < 0 ? display.label + " undefined"
                    : display.share ? fmt::format("{} {:.{}f} %", display.label, 100 * figure.value, digits)
                                    : fmt::format("{} {:.{}f}", display.label, figure.value, digits + 2));
  }
  return texts;
}

std::string show(const Scalars& figures, int digits, bool all, const char* separator) {
  return joined(show_each(figures, digits, all), separator);
}

}  // namespace octet
