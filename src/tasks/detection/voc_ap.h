// Average precision of detections as PASCAL VOC defines it. Source of the rules: voc_eval.py of py-faster-rcnn. All
// arithmetic is in double, as there.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/objects.h"

namespace octet {

// -1: undefined, because no object counts.
struct VocResult {
  struct Class {
    double area = -1;     // under the curve of precision, since VOC 2010
    double eleven = -1;   // mean of the precision at 11 recalls, as in VOC 2007
    int64_t objects = 0;  // that count: those that are not difficult
    int64_t detections = 0;
    std::vector<double> precision = {};  // the best at a recall of i / 100 or more; empty: no object counts
  };
  double area = -1, eleven = -1;  // means over the classes with objects
  std::vector<Class> classes;     // by label
};

// least: a detection finds an object that it overlaps more than this. detections: in any order; of equal scores the
// first detection of the earlier image comes first (the reference leaves this open).
VocResult voc_ap(const Annotations&, std::span<const Detection> detections, double least = 0.5);

}  // namespace octet
