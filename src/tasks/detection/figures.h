// What detections are worth, by the rules of the data set's format.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/graph/metrics.h"
#include "src/objects.h"

namespace octet {

struct DetectionFigures {
  Scalars figures;  // the main one first; -1: undefined
  struct Class {
    std::string name;
    int64_t objects = 0;  // that count; 0: in no mean, and its figures are -1
    Scalars figures;
    std::vector<double> precision =
        {};  // the best at a recall of i / 100 or more, at an overlap of 0.5; empty: no object
  };
  std::vector<Class> classes;
};

// format: "coco" gives the twelve figures of coco_ap.h, and AP and AP50 of each class. "voc" gives mAP (= AP50) and
// mAP11, the means of AP (area under the curve) and AP11 (eleven points) of each class.
DetectionFigures judge_detections(const std::string& format, const Annotations&, std::span<const Detection>);

}  // namespace octet
