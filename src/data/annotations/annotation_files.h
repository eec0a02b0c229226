// The formats behind annotations.h.
#pragma once
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/data/annotations/annotations.h"

namespace octet {

// The size that a file gives an image, in pixels. 0 x 0: it gives none, or one that cannot be a size.
struct AnnotatedSize {
  int32_t width = 0, height = 0;
  std::string odd;  // "120.5 x 80": what cannot be a size
};
AnnotatedSize annotated_size(double width, double height);
// odd: such sizes and where they stand. Says nothing if there are none.
void doubt_sizes(const std::string& file, const std::vector<std::string>& odd, Annotations&);

// COCO's instances_*.json. The paths of the images are those of the file. Images are in the order of the file, and so
// are the objects of an image. Labels follow the rising ids of the categories.
Annotations parse_coco(std::istream&, const std::string& file);
Annotations read_coco(const Config::Data&, Split);
std::filesystem::path coco_file(const Config::Data&, Split);  // the JSON file
bool coco_judges(const Config::Data&);                        // whether there is a file for evaluation

// One XML file of PASCAL VOC.
struct VocObject {
  std::string name;
  BoxInFile box;
  bool difficult = false;
};
struct VocImage {
  AnnotatedSize size;
  std::vector<VocObject> objects;
};
VocImage parse_voc(std::string_view xml, const std::string& file);
Annotations read_voc(const Config::Data&, Split);
bool voc_judges(const Config::Data&);

// YOLO's folders of images and labels. Images are sorted by path, or as their list has them.
Annotations read_yolo(const Config::Data&, Split);
bool yolo_judges(const Config::Data&);

// Of a training set that data.holdout divides: removes the images of the other split. Images of the same bytes are on
// the same side. UsageError: there are fewer than two different ones.
void keep_side(const Config::Data&, Split, Annotations&);

// folder / name. UsageError: `name` leads out of the folder, by its words or through a link. place: which file says it.
std::string path_inside(const std::filesystem::path& folder, const std::string& name, const std::string& place);

}  // namespace octet
