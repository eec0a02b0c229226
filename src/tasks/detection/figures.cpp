#include "src/tasks/detection/figures.h"

#include "kernels/base/error.h"
#include "src/tasks/detection/coco_ap.h"
#include "src/tasks/detection/voc_ap.h"

namespace octet {

DetectionFigures judge_detections(const std::string& format, const Annotations& annotations,
                                  std::span<const Detection> detections) {
  DetectionFigures judged;
  if (format == "coco") {
    const CocoResult result = coco_ap(annotations, detections);
    judged.figures = result.figures;
    for (size_t label = 0; label < result.classes.size(); ++label) {
      const CocoResult::Class& of = result.classes[label];
      judged.classes.push_back(
          {annotations.classes[label], of.objects, {{"AP", of.ap}, {"AP50", of.ap50}}, of.precision50});
    }
    return judged;
  }
  REQUIRE(format == "voc", "give coco or voc", "no rules for the format ", format);
  const VocResult result = voc_ap(annotations, detections);
  judged.figures = {{"mAP", result.area}, {"AP50", result.area}, {"mAP11", result.eleven}};
  for (size_t label = 0; label < result.classes.size(); ++label) {
    const VocResult::Class& of = result.classes[label];
    judged.classes.push_back(
        {annotations.classes[label], of.objects, {{"AP", of.area}, {"AP11", of.eleven}}, of.precision});
  }
  return judged;
}

}  // namespace octet
