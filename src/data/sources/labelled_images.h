// A folder of images with labels on which a network is judged, and which it did not train on.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/data/loader.h"

namespace octet {

struct LabelledImages {
  std::unique_ptr<Dataset> images;
  std::vector<std::string> absent = {};  // of a detector: images that have labels and are not there, or their labels
};

// For a classifier every image of a folder that has a folder of images for each class. For a detector the images of a
// data set with boxes, in the form of VOC, COCO or YOLO: those for evaluation or, where its files name none, all of
// them. They are read as the test set of config.data. Labels are those of the network's classes with the same names;
// some may be absent. UsageError: there is neither, a class with images or objects is not among the network's, or
// nothing is left to be judged.
LabelledImages open_labelled_images(const Config&, const std::string& folder, const Classes&);

}  // namespace octet
