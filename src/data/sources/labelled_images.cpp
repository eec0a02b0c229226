#include "src/data/sources/labelled_images.h"

#include <algorithm>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/data/annotations/annotations.h"
#include "src/data/annotations/recognise.h"
#include "src/data/augment/crops.h"
#include "src/data/sources/detection_set.h"
#include "src/data/sources/folder_index.h"
#include "src/data/sources/folder_layout.h"
#include "src/data/sources/source.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// Of a set of data that may be in another form than that of config.data. The keys that say how images are read stay.
Config config_of_folder(const Config& config, const std::string& folder, std::string& found) {
  Config own = config;
  own.data.holdout = 0;
  for (std::string* key : {&own.data.annotations, &own.data.annotations_test, &own.data.images, &own.data.images_test,
                           &own.data.sets, &own.data.sets_test})
    key->clear();
  found = recognise_annotations_to_judge(folder, own.data);
  return own;
}

// Gives the objects the labels of the network's classes. Classes without objects that it does not know are left out.
void number_as_network(const Classes& known, const std::string& folder, Annotations& truth) {
  std::vector<int64_t> objects(truth.classes.size());
  for (const AnnotatedImage& image : truth.images)
    for (const Object& object : image.objects) ++objects[size_t(object.label)];
  std::vector<int32_t> label_of;
  std::vector<std::string> unknown;
  std::vector<int64_t> ids(known.names.size(), no_category);
  for (size_t label = 0; label < truth.classes.size(); ++label) {
    const auto found = std::ranges::find(known.names, truth.classes[label]);
    label_of.push_back(int32_t(found - known.names.begin()));
    if (found != known.names.end())
      ids[size_t(label_of.back())] = truth.category_ids[label];
    else if (objects[label] > 0)
      unknown.push_back(truth.classes[label]);
  }
  REQUIRE_USAGE(unknown.empty(), say("name the classes as the network does: ", some_of(known.names)), folder,
                " has objects of classes that the network does not know: ", with_nearest(unknown, known.names));
  for (AnnotatedImage& image : truth.images)
    for (Object& object : image.objects) object.label = label_of[size_t(object.label)];
  truth.classes = known.names;
  truth.category_ids = std::move(ids);
}

// Removes images whose files are not there.
std::vector<std::string> remove_absent(Annotations& truth) {
  std::vector<std::string> absent = truth.without_image;
  std::erase_if(truth.images, [&](const AnnotatedImage& image) {
    std::error_code failed;
    if (fs::exists(image.path, failed)) return false;
    absent.push_back(image.path);
    return true;
  });
  return absent;
}

LabelledImages open_boxes(const Config& config, const std::string& folder, const Classes& classes) {
  std::string found;
  const Config own = config_of_folder(config, folder, found);
  REQUIRE_USAGE(
      !found.empty(),
      "name a folder with annotations in one of these forms; folders of classes say nothing about where an "
      "object is",
      folder,
      ": no boxes of objects here. Looked for: data.yaml (YOLO); annotations/instances_val2017.json, "
      "_annotations.coco.json or one other JSON file (COCO); ImageSets/Main or XML files (PASCAL VOC). Found: ",
      contents_of_folder(folder));
  Annotations truth = read_annotations_to_judge(own);
  say_doubts({&truth});
  std::vector<std::string> absent = remove_absent(truth);
  REQUIRE_USAGE(!truth.images.empty(), "put the images where the annotations say", folder, " (", found,
                "): none of the annotated images is there; missing: ", some_of(absent));
  number_as_network(classes, folder, truth);
  require_objects_to_find(truth, folder);
  OpenImage files =
      image_files(truth, config.data, as_the_set([own] { return read_annotations_to_judge(own); }, config.data));
  return {std::make_unique<DetectionSet>(say(own.data.name, ": ", folder), std::move(truth), std::move(files),
                                         config.data, image_side(config.data)),
          std::move(absent)};
}

}  // namespace

LabelledImages open_labelled_images(const Config& config, const std::string& folder, const Classes& classes) {
  const SourceTraits source = source_traits(config.data);
  REQUIRE_USAGE(fs::is_directory(folder), "name a folder that holds images with their labels", folder, " is no folder");
  REQUIRE_USAGE(!classes.names.empty(), "use weights that octet trained", "the weights do not name their classes");
  if (source.objects) return open_boxes(config, folder, classes);
  return {make_image_folder(index_labelled(folder, classes.names), Crops(config.data, {}, source.middle), config.data)};
}

}  // namespace octet
