#include "src/data/annotations/annotations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/sources/source.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

struct Format {
  const char* name;
  Annotations (*read)(const Config::Data&, Split);
  bool (*judges)(const Config::Data&);  // whether there is a set for evaluation
};
constexpr Format formats[] = {
    {"coco", read_coco, coco_judges},
    {"voc", read_voc, voc_judges},
    {"yolo", read_yolo, yolo_judges},
};

const Format& format_of(const Config::Data& data) {
  const auto* const format = std::ranges::find(formats, data.name, &Format::name);
  REQUIRE_USAGE(format != std::end(formats), say("set data.name to one of: ", joined(annotation_format_names(), ", ")),
                "data.name ", data.name, " has no annotations of objects");
  return *format;
}

// Removes what does not count. Images keep their order.
void keep_what_counts(const Config::Data& data, Split split, Annotations& all) {
  const bool training = split == Split::train;
  for (AnnotatedImage& image : all.images)
    std::erase_if(image.objects, [&](const Object& object) {
      const BoxFault fault = fault_of(object.box, image.width, image.height);
      REQUIRE_USAGE(fault == BoxFault::none || data.bad_boxes == "drop",
                    "repair the file, or set data.bad_boxes: drop; `octet check` lists all bad boxes", image.path,
                    ": object ", object.id, " (", all.classes[object.label], "): a bad box: ", name_of(fault));
      if (!training) return fault == BoxFault::not_finite;
      return fault != BoxFault::none || object.crowd || (object.difficult && data.difficult == "skip");
    });
  if (!training) return;
  const auto empty = [](const AnnotatedImage& image) { return image.objects.empty(); };
  REQUIRE_USAGE(!std::ranges::all_of(all.images, empty),
                "give images with objects; crowds, difficult objects and bad boxes do not train", data.root,
                ": the training set has no object that trains");
  if (data.empty_images == "skip") std::erase_if(all.images, empty);
}

}  // namespace

std::string name_with_id(const std::string& name, int64_t category_id) { return say(name, " (id ", category_id, ")"); }

std::vector<std::string> annotation_format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats) names.emplace_back(format.name);
  return names;
}

bool describes_objects(const Config::Data& data) {
  return std::ranges::find(formats, data.name, &Format::name) != std::end(formats);
}

void refuse_keys_of_others(const Config::Data& data) {
  struct {
    const char *key, *format;
    const std::string& value;
  } const keys[] = {{"data.annotations", "coco", data.annotations},
                    {"data.annotations_test", "coco", data.annotations_test},
                    {"data.images", "coco", data.images},
                    {"data.images_test", "coco", data.images_test},
                    {"data.sets", "voc", data.sets},
                    {"data.sets_test", "voc", data.sets_test}};
  for (const auto& [key, format, value] : keys)
    REQUIRE_USAGE(value.empty() || data.name == format, say("remove ", key), key, " is `", shown(value),
                  "`, but only data.name: ", format, " reads it");
}

Annotations read_all_annotations(const Config& config, Split split) {
  const Config::Data& data = config.data;
  const Format& format = format_of(data);
  refuse_keys_of_others(data);
  require_root(data);
  if (data.holdout == 0) return format.read(data, split);
  REQUIRE_USAGE(!format.judges(data), "leave data.holdout out, or move the set away", "data.holdout is ", data.holdout,
                ", but ", data.root, " has a set for evaluation");
  Annotations all = format.read(data, Split::train);
  keep_side(data, split, all);
  return all;
}

bool has_test_set(const Config::Data& data) { return format_of(data).judges(data); }

void say_doubts(std::initializer_list<const Annotations*> splits) {
  std::set<std::string> said;
  for (const Annotations* const of : splits)
    for (const std::string& doubt : of->doubts)
      if (said.insert(doubt).second) spdlog::warn("{}", doubt);
}

Annotations read_annotations(const Config& config, Split split) {
  Annotations all = read_all_annotations(config, split);
  keep_what_counts(config.data, split, all);
  return all;
}

Annotations read_annotations_to_judge(const Config& config) {
  Config::Data data = config.data;
  const Format& format = format_of(data);
  refuse_keys_of_others(data);
  require_root(data);
  const bool judges = format.judges(data);
  data.holdout = judges ? 0 : 1;  // XML files without lists are then one set
  Annotations all = format.read(data, judges ? Split::test : Split::train);
  keep_what_counts(data, Split::test, all);
  return all;
}

bool has_objects_to_find(const Annotations& test) {
  return std::ranges::any_of(test.images, [](const AnnotatedImage& image) {
    return std::ranges::any_of(image.objects, [](const Object& object) { return !object.crowd && !object.difficult; });
  });
}

void require_objects_to_find(const Annotations& test, const std::string& root) {
  REQUIRE_USAGE(has_objects_to_find(test),
                "give images with objects; crowds and difficult objects count neither as found nor as missed", root,
                ": the test set has no object to find");
}

BoxFault fault_of(const BoxInFile& box, int32_t width, int32_t height) {
  const double right = box.x + box.width, bottom = box.y + box.height;
  if (!std::isfinite(box.x) || !std::isfinite(box.y) || !std::isfinite(right) || !std::isfinite(bottom))
    return BoxFault::not_finite;
  if (!(box.width > 0 && box.height > 0)) return BoxFault::no_area;
  const bool beyond = (width > 0 && box.x >= width) || (height > 0 && box.y >= height);
  return right <= 0 || bottom <= 0 || beyond ? BoxFault::outside : BoxFault::none;
}

const char* name_of(BoxFault fault) {
  constexpr const char* names[] = {"none", "no finite numbers", "width or height is not positive",
                                   "outside of the image"};
  return names[static_cast<size_t>(fault)];
}

void require_classes(const Config& config, const Annotations& annotations) {
  const auto classes = static_cast<int64_t>(annotations.classes.size());
  REQUIRE_USAGE(config.model.classes == 0 || config.model.classes == classes,
                say("set model.classes to ", classes, ", or to 0 for the number of the data"), "model.classes is ",
                config.model.classes, ", but the data in ", config.data.root, " has ", classes, " classes");
}

void tell_apart(std::vector<std::string>& names, const std::vector<int64_t>& category_ids) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[name];
  for (size_t label = 0; label < std::min(names.size(), category_ids.size()); ++label)
    if (count[names[label]] > 1) names[label] = name_with_id(names[label], category_ids[label]);
}

Classes training_classes(const Config& config) {
  std::error_code failed;
  if (config.data.name != "coco" || !fs::is_regular_file(coco_file(config.data, Split::train), failed)) return {};
  Annotations train = read_all_annotations(config, Split::train);
  return {std::move(train.classes), std::move(train.category_ids)};
}

void number_as(const Classes& known, Annotations& test) {
  if (test.classes == known.names) return;
  std::map<std::string, int32_t> labels;
  for (size_t label = 0; label < known.names.size(); ++label) labels.emplace(known.names[label], int32_t(label));
  // A name that several categories share in the files of one split alone.
  for (size_t label = 0; label < std::min(known.names.size(), known.category_ids.size()); ++label)
    labels.emplace(name_with_id(known.names[label], known.category_ids[label]), int32_t(label));
  std::vector<std::string> unknown;
  std::vector<int32_t> label_of;  // by the labels of `test`
  std::vector<int64_t> ids(known.names.size(), no_category);
  for (size_t label = 0; label < test.classes.size(); ++label) {
    auto found = labels.find(test.classes[label]);
    if (found == labels.end()) found = labels.find(name_with_id(test.classes[label], test.category_ids[label]));
    if (found == labels.end()) {
      unknown.push_back(shown(test.classes[label]));
      continue;
    }
    label_of.push_back(found->second);
    ids[size_t(found->second)] = test.category_ids[label];
  }
  REQUIRE_USAGE(unknown.empty(), "annotate the same classes in both", "classes of the test set that are not in the ",
                "training set: ", joined(unknown, ", "));
  for (AnnotatedImage& image : test.images)
    for (Object& object : image.objects) object.label = label_of[size_t(object.label)];
  test.classes = known.names;
  test.category_ids = std::move(ids);
}

std::vector<std::string> absent_classes(const Annotations& annotations) {
  std::vector<std::string> absent;
  for (size_t label = 0; label < annotations.classes.size(); ++label)
    if (annotations.category_ids[label] == no_category) absent.push_back(annotations.classes[label]);
  return absent;
}

AnnotatedSize annotated_size(double width, double height) {
  const auto whole = [](double side) {
    return side >= 0 && side <= std::numeric_limits<int32_t>::max() && side == std::trunc(side);
  };
  if (!whole(width) || !whole(height)) return {.odd = say(width, " x ", height)};
  if (width == 0 || height == 0) return {};
  return {.width = static_cast<int32_t>(width), .height = static_cast<int32_t>(height), .odd = {}};
}

void doubt_sizes(const std::string& file, const std::vector<std::string>& odd, Annotations& annotations) {
  if (!odd.empty())
    annotations.doubts.push_back(say(file, ": ", odd.size(), " images have an annotated size that is no size, such as ",
                                     odd.front(), ": they are taken to have none"));
}

std::string path_inside(const fs::path& folder, const std::string& name, const std::string& place) {
  const fs::path below = name;
  const bool leaves = name.empty() || name.find('\0') != std::string::npos || below.is_absolute() ||
                      std::ranges::find(below, fs::path("..")) != below.end();
  REQUIRE_USAGE(!leaves, "name a file below the folder, without `..`", place, ": `", shown(name.c_str()),
                "` does not stay in the folder ", folder.string());
  std::error_code failed;
  const fs::path root = fs::weakly_canonical(folder, failed);
  const fs::path file = failed ? fs::path() : fs::weakly_canonical(folder / below, failed);
  REQUIRE_USAGE(!failed, "check the path and the permissions", place, ": ", (folder / below).string(), ": ",
                failed.message());
  REQUIRE_USAGE(std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first == root.end(),
                "put the file itself into the folder", place, ": `", shown(name), "` is a link out of the folder ",
                folder.string(), ", to ", file.string());
  return (folder / below).string();
}

}  // namespace octet
