#include <map>

#include "kernels/base/error.h"
#include "src/data/sources.h"

namespace octet {
namespace {

struct Source {
  Datasets (*open)(const Config&);
  bool on_disk;
  bool any_size;  // else 32 x 32
};

const std::map<std::string, Source>& sources() {
  static const std::map<std::string, Source> table = {{"cifar10", {open_cifar10, true, false}},
                                                      {"image_folder", {open_image_folder, true, true}},
                                                      {"packed", {open_packed, true, true}},
                                                      {"shapes", {open_shapes, false, false}},
                                                      {"synthetic", {open_synthetic, false, true}}};
  return table;
}

}  // namespace

Datasets open_datasets(const Config& config) {
  const auto& data = config.data;
  const auto found = sources().find(data.name);
  REQUIRE_USAGE(found != sources().end(), "set data.name to cifar10, image_folder, packed, shapes or synthetic",
                "there is no data set '", data.name, "'");
  const Source& source = found->second;
  REQUIRE_USAGE(!source.on_disk || !data.root.empty(), "set data.root to the folder of the data", "data.name is '",
                data.name, "', but data.root is empty");
  REQUIRE_USAGE(source.any_size || data.image_size == 0 || data.image_size == 32,
                "leave data.image_size out, or use data.name: image_folder", "data.image_size is ", data.image_size,
                ", but '", data.name, "' is 32 x 32");
  REQUIRE_USAGE(data.batch > 0 && data.samples >= 0 && data.image_size >= 0,
                "set data.batch above 0; data.samples and data.image_size to 0 or above", "data.batch ", data.batch,
                ", data.samples ", data.samples, ", data.image_size ", data.image_size);
  Datasets sets = source.open(config);
  REQUIRE_USAGE(sets.train->classes() > 1, "give two folders of classes or more",
                "the data has one class: ", sets.train->describe());
  REQUIRE_USAGE(sets.train->classes() == config.model.classes, say("set model.classes to ", sets.train->classes()),
                "model.classes is ", config.model.classes, ", but the data has ", sets.train->classes(),
                " classes: ", sets.train->describe());
  REQUIRE_USAGE(sets.train->size() >= data.batch, say("set data.batch to at most ", sets.train->size()),
                "data.batch is ", data.batch, ", but the training set has only ", sets.train->size(),
                " images: ", sets.train->describe());
  REQUIRE_USAGE(sets.test->size() > 0, "put images into the test set",
                "the test set is empty: ", sets.test->describe());
  return sets;
}

}  // namespace octet
