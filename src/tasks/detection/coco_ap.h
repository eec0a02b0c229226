// Average precision and recall of detections as COCO defines them. Source of the rules: pycocotools/cocoeval.py,
// COCOeval for boxes with its standard parameters. All arithmetic is in double, as there.
#pragma once
#include <span>
#include <vector>

#include "src/graph/metrics.h"
#include "src/objects.h"

namespace octet {

// -1: undefined, because no object of that kind counts.
struct CocoResult {
  // AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl: precision over all thresholds of overlap, at 0.5 and 0.75, and
  // of small, medium and large objects; recall of the best 1, 10 and 100 detections of a class on an image, and by
  // size.
  Scalars figures;
  struct Class {
    double ap = -1, ap50 = -1;
    int64_t objects = 0;  // that count
    std::vector<double> precision50 =
        {};  // the best at a recall of i / 100 or more, at an overlap of 0.5; empty: no object
  };
  std::vector<Class> classes;  // by label
};

// detections: in any order. Of equal scores the first detection of the image with the smaller id comes first.
CocoResult coco_ap(const Annotations&, std::span<const Detection> detections);

}  // namespace octet
