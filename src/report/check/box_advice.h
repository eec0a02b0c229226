// A recipe for images with boxes, with a reason for each choice.
#pragma once
#include <optional>

#include "src/data/annotations/annotations.h"
#include "src/report/check/recipe_advice.h"

namespace octet {

struct BoxFacts {     // what a folder of images with annotated boxes holds
  Config config;      // of which the data's name, root and files are set
  std::string found;  // by what it was recognised: "data.yaml"
  Annotations train;
  int64_t test = 0;       // images
  int64_t absent = 0;     // images of both splits whose files are not there
  int64_t bad_boxes = 0;  // of both splits: without a pixel of their image, or of a class without a name
};
// None: the folder holds no annotations in the form of VOC, COCO or YOLO. UsageError: it does, and they cannot be read.
std::optional<BoxFacts> look_at_boxes(const std::string& root, int cores);

// weights: of a backbone, or empty. memory: bytes that a training may use. UsageError: the weights are of no backbone.
std::vector<Choice> choose_detector(const BoxFacts&, const std::string& weights, int64_t memory, int cores);

}  // namespace octet
