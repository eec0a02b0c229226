// Objects on images, as annotations and detections describe them.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace octet {

// In pixels of the file, from the left and upper edge of the box. In double, so that evaluation computes with the
// numbers of the file.
struct BoxInFile {
  double x = 0, y = 0, width = 0, height = 0;
};

struct Object {
  int64_t id = 0;  // COCO: of the annotation; VOC: number of the object in its file, from 1
  BoxInFile box;
  double area = 0;         // of the annotation: with COCO that of the object's mask
  int32_t label = 0;       // in [0, classes)
  bool crowd = false;      // COCO: many objects in one box
  bool difficult = false;  // VOC: counts neither as found nor as missed
};

struct AnnotatedImage {
  int64_t id = 0;                 // COCO: of the file; VOC: position in the sets, from 1
  std::string name;               // COCO: of the file; VOC: without folder and ending
  std::string path;               // of the image
  int32_t width = 0, height = 0;  // 0: not known before the image is read
  std::vector<Object> objects;
};

// In place of a category's id: the file of the test set does not list this class of the training set.
inline constexpr int64_t no_category = std::numeric_limits<int64_t>::min();

struct Annotations {
  std::vector<std::string> classes;   // by label; each name once
  std::vector<int64_t> category_ids;  // by label; COCO: of the file, or no_category; VOC: label + 1
  std::vector<AnnotatedImage> images;
  std::vector<std::string> without_image = {};  // YOLO: files of labels whose images are not there
  int64_t without_class = 0;  // YOLO: objects that data.bad_boxes: drop left out, since their classes have no name
  std::vector<std::string> doubts = {};                    // what is odd about the files, for people
  bool text_image_ids = false, text_category_ids = false;  // COCO: the file writes "12", and so do stored detections
};

struct Detection {
  int64_t image = 0;  // index in Annotations::images
  int32_t label = 0;
  double score = 0;
  BoxInFile box;
};

}  // namespace octet
