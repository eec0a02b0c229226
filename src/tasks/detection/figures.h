// What detections are worth, by the rules of the data set's format.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/graph/metrics.h"
#include "src/objects.h"

namespace octet {

// What detections of a score or more are worth, at an overlap of 0.5. -1: undefined, because no object counts; a score
// of -1: no detection finds an object.
struct AtScore {
  double score = -1, precision = -1, recall = -1, f1 = -1;
};

// Detections that count, and whether each finds an object.
struct Decisions {
  struct Detection {
    double score = 0;
    bool found = false;
  };
  std::vector<Detection> detections;
  int64_t objects = 0;  // that count

  void add(const Decisions&);
  // At the score with the greatest F1; of several the highest.
  AtScore best() const;
};

// -1: undefined, because no object of that kind counts.
struct DetectionFigures {
  Scalars figures;  // the main one first; means over the classes with objects
  struct Class {
    std::string name;
    int64_t objects = 0;  // that count; 0: in no mean, and its figures are -1
    Scalars figures;
    // The best at a recall of i / 100 or more, at an overlap of 0.5; empty: no object.
    std::vector<double> precision = {};
    AtScore best = {};  // at a score of its own
  };
  std::vector<Class> classes;  // by label
  AtScore at_one_score = {};   // of all classes with objects together
};

// Average precision and recall as COCO defines them: AP AP50 AP75 APs APm APl AR1 AR10 AR100 ARs ARm ARl, that is,
// precision over all thresholds of overlap, at 0.5 and 0.75, and of small, medium and large objects; recall of the best
// 1, 10 and 100 detections of a class on an image, and by size. AP and AP50 of each class. detections: in any order; of
// equal scores the first detection of the image with the smaller id comes first. Source of the rules:
// pycocotools/cocoeval.py, COCOeval for boxes with its standard parameters. All arithmetic is in double, as there.
DetectionFigures coco_ap(const Annotations&, std::span<const Detection> detections);

// Average precision as PASCAL VOC defines it: mAP (= AP50) and mAP11, the means of each class's AP, the area under the
// curve of precision (since VOC 2010), and AP11, the mean of the precision at 11 recalls (VOC 2007). detections: in any
// order; of equal scores the first detection of the earlier image comes first (the reference leaves this open). Source
// of the rules: voc_eval.py of py-faster-rcnn. All arithmetic is in double, as there.
DetectionFigures voc_ap(const Annotations&, std::span<const Detection> detections);

// By the rules of the data's format.
DetectionFigures judge_detections(const Config&, const Annotations&, std::span<const Detection>);

// The figures on a line each, and a table of the classes. Of more than 30 classes with objects, those with the least
// and with the greatest first figure.
std::string detection_table(const DetectionFigures&);
// One JSON object of the figures. `by_class` holds the first figure of each class that has objects, `classes` all of
// each class, and `at_one_score` what all classes are worth at the same score.
std::string detection_json(const DetectionFigures&);
// RFC 4180, a line for each class. What is undefined is empty.
std::string detection_csv(const DetectionFigures&);

}  // namespace octet
