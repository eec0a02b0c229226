#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "kernels/base/error.h"
#include "src/config/keys.h"
#include "src/data/annotations/annotations.h"
#include "src/data/augment/augmentation.h"
#include "src/data/augment/canvases.h"
#include "src/data/augment/crops.h"
#include "src/data/fingerprint.h"
#include "src/data/loader.h"
#include "src/data/sources/folder_index.h"
#include "src/data/sources/source.h"

namespace octet {

// A data source is a row of the table below and a file, which defines this function. training: false: it opens the test
// set alone.
using OpenSource = Datasets(const Config&, bool training);
OpenSource open_annotated, open_cifar10, open_image_folder, open_packed, open_shapes, open_shapes_detection,
    open_synthetic;

namespace {

struct Source {
  const char* name;
  OpenSource* open;
  const char* reads;  // what data.root must be; empty: the source reads no files
  int64_t side;       // height and width of its images in pixels
  bool any_side;      // data.image_size may change them
  SourceTraits traits;
};
constexpr double after_resizing = 224.0 / 256;  // as in Crops
constexpr Source sources[] = {
    {"coco",
     open_annotated,
     "the folder that holds annotations/, train2017/ and val2017/",
     0,
     false,
     {true, of_photographs}},
    {"voc",
     open_annotated,
     "the folder that holds VOC2007/ or VOC2012/, or that is such a folder",
     0,
     false,
     {true, of_photographs}},
    {"yolo", open_annotated, "the folder that holds data.yaml, images/ and labels/", 0, false, {true, of_photographs}},
    {"cifar10", open_cifar10, "the folder of CIFAR-10's binary files", 32, true, {false, of_cifar10}},
    {"image_folder",
     open_image_folder,
     "a folder that holds train/<class>/*.jpg and val/<class>/*.jpg, or one folder of classes, which data.holdout "
     "divides",
     224,
     true,
     {false, of_photographs, after_resizing}},
    {"packed", open_packed, "the folder that `octet pack` wrote", 224, true, {false, of_photographs, after_resizing}},
    {"shapes", open_shapes, "", 32, false, {false, of_drawings}},
    {"shapes_detection", open_shapes_detection, "", 128, true, {true, of_drawings}},
    {"synthetic", open_synthetic, "", 32, true, {false, of_drawings}},
};

const Source& source_of(const Config::Data& data) {
  const auto* const source = std::ranges::find(sources, data.name, &Source::name);
  REQUIRE_USAGE(source != std::end(sources), say("use one of: ", joined(data_source_names(), ", ")),
                "there is no data source `", data.name, "`");
  return *source;
}

std::string fix_of_root(const Source& source) { return say("set data.root to ", source.reads); }

void require_named_root(const Source& source, const Config::Data& data) {
  REQUIRE_USAGE(*source.reads == '\0' || !data.root.empty(), fix_of_root(source), "`data.name` ", data.name,
                " needs `data.root`");
}

// Labels alone say nothing about where an object is, so images are cropped, and no key of a canvas has a meaning.
void require_no_canvases(const Config::Data& data) {
  const Config::Data defaults;
  const auto unused = [&](const char* key, bool used) {
    REQUIRE_USAGE(!used, say("leave ", key, " out, or choose data with objects"), key, " is set, but '", data.name,
                  "' has no objects");
  };
  unused("data.canvas_heights", !data.canvas_heights.empty());
  unused("data.canvas_widths", !data.canvas_widths.empty());
  unused("data.short_side", data.short_side != 0);
  unused("data.long_side", data.long_side != 0);
  unused("data.short_sides", !data.short_sides.empty());
  unused("data.flip", data.flip != defaults.flip);
}

}  // namespace

std::vector<std::string> data_source_names() {
  std::vector<std::string> names;
  for (const Source& source : sources) names.emplace_back(source.name);
  return names;
}

int64_t image_side(const Config::Data& data) {
  const Source& source = source_of(data);
  const bool has_canvases = source.side == 0;
  REQUIRE_USAGE(source.any_side || data.image_size == 0 || data.image_size == source.side,
                has_canvases ? "leave data.image_size out; data.short_side and data.long_side set the size"
                             : "leave data.image_size out, or use data.name: image_folder",
                "data.image_size is ", data.image_size, ", but '", data.name, "' ",
                has_canvases ? std::string("has images of many sizes") : say("is ", source.side, " x ", source.side));
  return data.image_size > 0 ? data.image_size : source.side;
}

std::vector<ImageShape> input_shapes(const Config::Data& data) {
  const int64_t side = image_side(data);
  if (!source_of(data).traits.objects) return {{side, side, 3}};
  const Canvases canvases(data, side);
  std::vector<ImageShape> shapes;
  for (int canvas = 0; canvas < canvases.count(); ++canvas) shapes.push_back(canvases.shape(canvas));
  return shapes;
}

Classes classes_of(const Dataset& data) {
  const Annotations* const objects = data.annotations();
  return {data.class_names(), objects ? objects->category_ids : std::vector<int64_t>()};
}

SourceTraits source_traits(const Config::Data& data) {
  image_side(data);  // refuses a size that the source does not have
  return source_of(data).traits;
}

int64_t resized_shorter_side(const Config::Data& data) {
  return shorter_side(image_side(data), source_traits(data).middle);
}

void require_root(const Config::Data& data) {
  const Source& source = source_of(data);
  if (*source.reads == '\0') return;
  require_named_root(source, data);
  std::error_code unknown;
  const auto root = std::filesystem::status(data.root, unknown);
  const std::string fix = fix_of_root(source);
  REQUIRE_USAGE(root.type() != std::filesystem::file_type::not_found, fix, "data.root is `", data.root,
                "`: no such file or folder");
  REQUIRE_USAGE(root.type() != std::filesystem::file_type::none, fix, "data.root is `", data.root,
                "`: ", unknown.message());
  REQUIRE_USAGE(std::filesystem::is_directory(root), fix, "data.root is `", data.root, "`, which is a file");
}

uint64_t Datasets::fingerprint() const {
  const uint64_t both[] = {train ? train->fingerprint() : 0, test->fingerprint()};
  return octet::fingerprint(0, both);
}

namespace {

// Of the data of a test set: the classes that train with it. Empty: there is no training set.
Classes classes_of_training(const Config& config) {
  if (config.data.name == "image_folder") return {training_class_names(config.data), {}};
  return training_classes(config);
}

// Of the classes of which it has something.
bool knows_all(const Classes& known, const Dataset& data) {
  const std::vector<std::string> names = data.class_names(), absent = data.absent_classes();
  return !names.empty() && std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::count(known.names, name) > 0 || std::ranges::count(absent, name) > 0;
  });
}

// The labels of a test set become those of its training set or, without one, of a network. Classes that neither knows
// are for others to refuse.
void number_test_set(const Config& config, const Classes& known, Datasets& sets) {
  Dataset& test = *sets.test;
  const int64_t classes = config.model.classes;
  const bool fits = classes == 0 || test.classes() == classes;
  if (sets.train) {
    test.number_as(classes_of(*sets.train));
  } else if (knows_all(known, test)) {
    test.number_as(known);
  } else {
    const Classes own = classes_of_training(config);
    const bool of_network = !own.names.empty() && static_cast<int64_t>(own.names.size()) == classes;
    // Weights without names of classes follow the training set: it refuses classes that do not train.
    if (known.names.empty() && of_network)
      test.number_as(own);
    else if (knows_all(own, test) && (of_network || !fits))
      test.number_as(own);
  }
  const std::vector<std::string> absent = test.absent_classes();
  if (!absent.empty())
    spdlog::warn("the test set lacks {} of {} classes, which are not judged: {}", absent.size(), test.classes(),
                 joined(absent, ", "));
}

}  // namespace

Datasets open_datasets(const Config& config, bool training, const Classes& known) {
  const auto& data = config.data;
  const Source& source = source_of(data);
  require_named_root(source, data);
  refuse_keys_of_others(data);
  image_side(data);  // refuses a size that the source does not have
  if (!source.traits.objects) require_no_canvases(data);
  check_augmentation(config, source.traits.objects);
  REQUIRE_USAGE(*source.reads == '\0' || data.samples == 0, "set data.samples: 0; train.steps ends a training early",
                "data.samples is ", data.samples, ", but '", data.name, "' has its own images");
  REQUIRE_USAGE(data.holdout == 0 || data.name == "image_folder" || describes_objects(data), "leave data.holdout out",
                "data.holdout is ", data.holdout, ", but only data.name: image_folder, ",
                joined(annotation_format_names(), ", "), " read it");
  require_root(data);
  Datasets sets = source.open(config, training);
  number_test_set(config, known, sets);
  const Dataset& test = *sets.test;
  REQUIRE_USAGE(test.classes() > 1 || source.traits.objects,
                *source.reads == '\0' ? "set model.classes to 2 or more" : "give two folders of classes or more",
                "the data has one class: ", test.describe());
  REQUIRE_USAGE(test.classes() == config.model.classes || (source.traits.objects && config.model.classes == 0),
                say("set model.classes to ", test.classes()), "model.classes is ", config.model.classes,
                ", but the data has ", test.classes(), " classes: ", test.describe());
  REQUIRE_USAGE(!training || sets.train->size() >= data.batch, say("set data.batch to at most ", sets.train->size()),
                "data.batch is ", data.batch, ", but the training set has only ", sets.train->size(),
                " images: ", sets.train->describe());
  REQUIRE_USAGE(test.size() > 0, "put images into the test set", "the test set is empty: ", test.describe());
  return sets;
}

Annotations test_annotations(const Config& config) {
  if (describes_objects(config.data)) return read_annotations(config, Split::test);
  const Datasets sets = open_datasets(config, false);
  REQUIRE_USAGE(sets.test->annotations(), "choose data with objects, for example data.name: coco", "data.name is '",
                config.data.name, "', whose images have no objects");
  return *sets.test->annotations();
}

}  // namespace octet
