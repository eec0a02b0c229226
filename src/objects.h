// Objects on images, as annotations and detections describe them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace octet {

// In pixels of the file, from the left and upper edge of the box. In double, so that evaluation computes with the
// numbers of the file.
struct BoxInFile {
  double x = 0, y = 0, width = 0, height = 0;
};

struct Object {
  BoxInFile box;
  double area = 0;         // of the annotation: with COCO that of the object's mask
  int32_t label = 0;       // in [0, classes)
  bool crowd = false;      // COCO: many objects in one box
  bool difficult = false;  // VOC: counts neither as found nor as missed
};

struct AnnotatedImage {
  int64_t id = 0;                 // of the file
  std::string name;               // for messages
  std::string path;               // of the image
  int32_t width = 0, height = 0;  // 0: not known before the image is read
  std::vector<Object> objects;
};

struct Annotations {
  std::vector<std::string> classes;   // by label
  std::vector<int64_t> category_ids;  // by label; of the file
  std::vector<AnnotatedImage> images;
};

struct Detection {
  int64_t image = 0;  // index in Annotations::images
  int32_t label = 0;
  float score = 0;
  BoxInFile box;
};

}  // namespace octet
