#include "src/tasks/detection/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/base/text.h"

namespace octet {

DetectionFigures judge_detections(const Config& config, const Annotations& truth, std::span<const Detection> found) {
  return config.data.name == "voc" ? voc_ap(truth, found) : coco_ap(truth, found);
}

std::string detection_table(const DetectionFigures& judged) {
  std::string text, absent;
  for (const Scalar& figure : judged.figures) text += fmt::format("{:6}{:8.4f}\n", figure.name, figure.value);
  size_t width = 5;
  for (const auto& of : judged.classes) width = std::max(width, printable(of.name).size());
  text += fmt::format("\n{:{}}  objects", "class", width);
  if (!judged.classes.empty())
    for (const Scalar& figure : judged.classes[0].figures) text += fmt::format("{:>8}", figure.name);
  for (const auto& of : judged.classes) {
    if (of.objects == 0) {
      absent += (absent.empty() ? "" : ", ") + printable(of.name);
      continue;
    }
    text += fmt::format("\n{:{}}  {:7}", printable(of.name), width, of.objects);
    for (const Scalar& figure : of.figures) text += fmt::format("{:8.4f}", figure.value);
  }
  if (!absent.empty()) text += "\nno object that counts, and so in no mean: " + absent;
  return text + "\n";
}

std::string detection_json(const DetectionFigures& judged) {
  nlohmann::ordered_json object;
  for (const Scalar& figure : judged.figures) object[figure.name] = figure.value;
  if (!judged.classes.empty()) {
    object["by_class"] = nlohmann::ordered_json::object();
    for (const auto& of : judged.classes)
      if (of.objects > 0) object["by_class"][of.name] = of.figures[0].value;
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace octet
