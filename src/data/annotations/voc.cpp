// PASCAL VOC: lists of images in ImageSets/Main, and one XML file for each image in Annotations.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <sstream>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/config/yaml.h"
#include "src/data/annotations/annotation_files.h"
#include "src/data/annotations/number_text.h"
#include "src/data/annotations/voc_files.h"
#include "src/data/images/image_format.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t most_bytes = 16 << 20;  // of an XML file
constexpr size_t most_objects = 100'000;    // of an image
const std::vector<std::string> classes_of_voc = {
    "aeroplane",   "bicycle", "bird",  "boat",      "bottle", "bus",         "car",   "cat",  "chair", "cow",
    "diningtable", "dog",     "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"};

std::string trimmed(std::string_view text) { return std::string(without_blanks(text)); }

// A number that has to be there.
double value_of(const pugi::xml_node& parent, const char* name, const std::string& place) {
  const pugi::xml_node node = parent.child(name);
  REQUIRE_USAGE(node, "correct the file", place, ": no <", name, ">");
  const std::optional<double> number = number_in(node.child_value());
  REQUIRE_USAGE(number, "correct the file", place, ": <", name, "> is `", shown(trimmed(node.child_value())),
                "`, not a number");
  return *number;
}

// A side of the image. 0: the file does not say it.
double side_in(const pugi::xml_node& size, const char* name, const std::string& file) {
  return trimmed(size.child_value(name)).empty() ? 0 : value_of(size, name, file);
}

// Tools leave a flag empty, or write a word.
bool flag_in(const pugi::xml_node& object, const char* name, const std::string& place) {
  std::string text = trimmed(object.child_value(name));
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(tolower(c)); });
  if (text.empty() || text == "false" || text == "unspecified") return false;
  if (text == "true") return true;
  const double number = value_of(object, name, place);
  REQUIRE_USAGE(std::isfinite(number), "write 0 or 1", place, ": <", name, "> is ", number);
  return number != 0;
}

// Pixels of VOC are counted from 1, and a box holds both of its corners.
BoxInFile box_in(const pugi::xml_node& object, const std::string& place) {
  const pugi::xml_node corners = object.child("bndbox");
  REQUIRE_USAGE(corners, "give the object a <bndbox> with <xmin>, <ymin>, <xmax> and <ymax>", place, ": no <bndbox>");
  REQUIRE_USAGE(!corners.next_sibling("bndbox"), "give each box an <object> of its own", place,
                ": more than one <bndbox>");
  const double left = value_of(corners, "xmin", place) - 1, top = value_of(corners, "ymin", place) - 1;
  return {left, top, value_of(corners, "xmax", place) - left, value_of(corners, "ymax", place) - top};
}

// A list of images: ImageSets/Main/<set>.txt of a folder; or without a set, all XML files of a folder without lists.
struct ImageSet {
  fs::path folder;
  std::string set;
  fs::path file() const { return folder / "ImageSets" / "Main" / (set + ".txt"); }
  bool exists() const {
    std::error_code failed;
    return fs::is_regular_file(file(), failed);
  }
  fs::path annotations() const {
    return set.empty() ? holding(is_xml, {"Annotations", "annotations", "xml", "labels"}) : folder / "Annotations";
  }
  fs::path images() const {
    return set.empty() ? holding(names_an_image, {"JPEGImages", "images", "Images"}) : folder / "JPEGImages";
  }
  std::string place() const { return set.empty() ? folder.string() : file().string(); }
  std::vector<std::string> names() const {
    if (!set.empty()) return names_in(file(), annotations());
    std::vector<std::string> names;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(annotations(), failed))
      if (is_xml(entry.path())) names.push_back(entry.path().stem().string());
    std::ranges::sort(names);
    return names;
  }
  static bool is_xml(const fs::path& path) { return path.extension() == ".xml"; }

 private:
  // The first of these folders below, or the folder itself, in which there is such a file.
  fs::path holding(bool (*file)(const fs::path&), std::initializer_list<const char*> below) const {
    for (const char* name : below)
      for (std::error_code failed; const auto& entry : fs::directory_iterator(folder / name, failed))
        if (file(entry.path())) return folder / name;
    return folder;
  }
};

// "2007/trainval, 2012/trainval"; "trainval" of a root that is itself such a folder.
std::vector<ImageSet> sets_named(const fs::path& root, const std::string& names) {
  std::vector<ImageSet> sets;
  std::istringstream items(names);
  for (std::string item; std::getline(items, item, ',');) {
    item = trimmed(item);
    const size_t slash = item.find('/');
    std::string folder = slash == item.npos ? "" : item.substr(0, slash);
    if (!folder.empty() && folder.find_first_not_of("0123456789") == folder.npos) folder = "VOC" + folder;
    const ImageSet set{root / folder, slash == item.npos ? item : item.substr(slash + 1)};
    REQUIRE_USAGE(set.exists(), "name sets as 2007/trainval, or trainval where data.root holds ImageSets itself",
                  "set `", shown(item), "`: there is no file ", set.file().string());
    sets.push_back(set);
  }
  return sets;
}

// Where a set `test` exists, it is judged, and trainval (or train) trains. Otherwise val is judged, and train trains.
std::vector<ImageSet> sets_of(const Config::Data& data, Split split) {
  const bool training = split == Split::train;
  const fs::path root = data.root;
  const std::string& given = training ? data.sets : data.sets_test;
  if (!given.empty()) return sets_named(root, given);
  std::vector<fs::path> folders;
  std::error_code failed;
  for (const fs::path& folder : {root, root / "VOC2007", root / "VOC2012"})
    if (fs::is_directory(folder / "ImageSets" / "Main", failed)) folders.push_back(folder);
  if (folders.empty() && data.holdout > 0) return {{root, ""}};
  REQUIRE_USAGE(
      !folders.empty(),
      "set data.root to the folder that holds VOC2007/ or VOC2012/, or to such a folder; where XML files have "
      "no lists, set data.holdout: 0.15",
      root.string(), ": no folder ImageSets/Main, VOC2007/ImageSets/Main or VOC2012/ImageSets/Main");
  const bool tested = std::ranges::any_of(folders, [](const fs::path& folder) {
    return ImageSet{folder, "test"}.exists();
  });
  std::vector<ImageSet> sets;
  for (const fs::path& folder : folders) {
    const ImageSet train{folder, "train"}, both{folder, "trainval"};
    const ImageSet set = !training ? ImageSet{folder, tested ? "test" : "val"} : tested && both.exists() ? both : train;
    if (set.exists()) sets.push_back(set);
  }
  return sets;
}

std::string contents_of(const fs::path& file) {
  std::error_code failed;
  REQUIRE_USAGE(fs::is_regular_file(file, failed), "add the file, or remove the image from its list", file.string(),
                ": there is no such file");
  const uintmax_t size = fs::file_size(file, failed);
  REQUIRE_USAGE(!failed && size > 0, "write the file again", file.string(), ": a file of 0 bytes");
  REQUIRE_USAGE(size <= most_bytes, "split the file", file.string(), ": ", size, " bytes, more than 16 MiB");
  std::string text(size, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(size));
  REQUIRE_USAGE(stream.gcount() == static_cast<std::streamsize>(size), "check the permissions", file.string(),
                ": cannot be read");
  return text;
}

struct NamedImage {
  AnnotatedImage image;
  std::vector<VocObject> objects;
  std::string odd_size;
};

std::vector<NamedImage> images_of(const std::vector<ImageSet>& sets) {
  std::vector<NamedImage> images;
  std::map<std::string, std::string> seen;
  for (const ImageSet& set : sets) {
    const std::string list = set.place();
    const fs::path annotations = set.annotations(), folder = set.images();
    ImageFinder files(folder);
    for (const std::string& name : set.names()) {
      const auto [before, added] = seen.emplace(name, list);
      REQUIRE_USAGE(added, "list each image once", list, ": image `", shown(name), "` was listed before, in ",
                    before->second);
      const std::string xml = path_inside(annotations, name + ".xml", list);
      VocImage voc = parse_voc(contents_of(xml), xml);
      images.push_back({{.id = static_cast<int64_t>(images.size()) + 1,
                         .name = name,
                         .path = path_inside(folder, files.find(name), list),
                         .width = voc.size.width,
                         .height = voc.size.height,
                         .objects = {}},
                        std::move(voc.objects),
                        voc.size.odd.empty() ? "" : voc.size.odd + " of " + name});
    }
  }
  return images;
}

// Images beside XML files without lists.
void doubt_images_without_xml(const std::vector<ImageSet>& sets, const std::vector<NamedImage>& read,
                              Annotations& annotations) {
  std::set<std::string> known;
  for (const NamedImage& image : read) known.insert(image.image.name);
  for (const ImageSet& set : sets) {
    if (!set.set.empty()) continue;
    int64_t all = 0, without = 0;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(set.images(), failed)) {
      if (!names_an_image(entry.path())) continue;
      ++all;
      if (!known.contains(entry.path().stem().string())) ++without;
    }
    if (without > 0)
      annotations.doubts.push_back(
          say(set.place(), ": ", without, " of ", all, " images have no XML file, and are not read"));
  }
}

std::set<std::string> names_on(const std::vector<NamedImage>& images) {
  std::set<std::string> names;
  for (const NamedImage& image : images)
    for (const VocObject& object : image.objects) names.insert(object.name);
  return names;
}

// VOC's 20 where all names are among them; otherwise the names of the training sets or, without any, of the test sets.
std::vector<std::string> classes_for(const std::set<std::string>& train, const std::set<std::string>& test) {
  const auto of_voc = [](const std::string& name) { return std::ranges::binary_search(classes_of_voc, name); };
  if (std::ranges::all_of(train, of_voc) && std::ranges::all_of(test, of_voc)) return classes_of_voc;
  if (train.empty()) return {test.begin(), test.end()};
  std::vector<std::string> unknown;
  std::ranges::set_difference(test, train, std::back_inserter(unknown));
  for (std::string& name : unknown) name = shown(name);
  REQUIRE_USAGE(unknown.empty(), "annotate the same classes in both", "classes of the test sets that are not in the ",
                "training sets: ", joined(unknown, ", "));
  return {train.begin(), train.end()};
}

}  // namespace

VocImage parse_voc(std::string_view xml, const std::string& file) {
  pugi::xml_document document;  // without document types, and without entities but those of XML itself
  const pugi::xml_parse_result result = document.load_buffer(xml.data(), xml.size());
  REQUIRE_USAGE(result, "write the file again", file, ": byte ", result.offset, ": no XML: ", result.description());
  const pugi::xml_node root = document.child("annotation");
  REQUIRE_USAGE(root, "give a file of PASCAL VOC", file, ": no <annotation>");
  VocImage image;
  const pugi::xml_node size = root.child("size");
  image.size = annotated_size(side_in(size, "width", file), side_in(size, "height", file));
  for (const pugi::xml_node& node : root.children("object")) {
    REQUIRE_USAGE(image.objects.size() < most_objects, "split the image", file, ": more than 100,000 objects");
    const std::string place = say(file, ": object ", image.objects.size() + 1);
    VocObject object;
    object.name = trimmed(node.child_value("name"));
    REQUIRE_USAGE(!object.name.empty(), "name its class", place, ": no <name>");
    object.box = box_in(node, place);
    object.difficult = flag_in(node, "difficult", place);
    image.objects.push_back(std::move(object));
  }
  return image;
}

bool voc_judges(const Config::Data& data) {
  for (const char* folder : {"", "VOC2007", "VOC2012"})
    for (const char* set : {"test", "val"})
      if (ImageSet{fs::path(data.root) / folder, set}.exists()) return true;
  return !data.sets_test.empty();
}

Annotations read_voc(const Config::Data& data, Split split) {
  const std::vector<ImageSet> sets = sets_of(data, Split::train);
  std::vector<NamedImage> train = images_of(sets), test;
  if (split == Split::test) test = images_of(sets_of(data, Split::test));
  std::vector<NamedImage>& chosen = split == Split::train ? train : test;
  REQUIRE_USAGE(!chosen.empty(), split == Split::train ? "set data.sets" : "set data.sets_test", data.root,
                ": ImageSets/Main holds no list for ", split == Split::train ? "training" : "testing");
  Annotations annotations;
  if (split == Split::train) doubt_images_without_xml(sets, train, annotations);
  annotations.classes = classes_for(names_on(train), names_on(test));
  for (size_t label = 0; label < annotations.classes.size(); ++label)
    annotations.category_ids.push_back(static_cast<int64_t>(label) + 1);
  std::vector<std::string> odd_sizes;
  for (NamedImage& named : chosen) {
    if (!named.odd_size.empty()) odd_sizes.push_back(std::move(named.odd_size));
    for (const VocObject& object : named.objects) {
      const auto label = std::ranges::lower_bound(annotations.classes, object.name) - annotations.classes.begin();
      named.image.objects.push_back({.id = static_cast<int64_t>(named.image.objects.size()) + 1,
                                     .box = object.box,
                                     .area = object.box.width * object.box.height,
                                     .label = static_cast<int32_t>(label),
                                     .difficult = object.difficult});
    }
    annotations.images.push_back(std::move(named.image));
  }
  doubt_sizes(data.root, odd_sizes, annotations);
  return annotations;
}

}  // namespace octet
