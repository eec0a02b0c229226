#include <map>

#include "kernels/base/error.h"
#include "src/data/fingerprint.h"
#include "src/data/normalization.h"
#include "src/data/sources.h"

namespace octet {
namespace {

struct Source {
  Datasets (*open)(const Config&, bool training);
  bool on_disk;
  int64_t side;
  bool any_side;
};

const std::map<std::string, Source>& sources() {
  static const std::map<std::string, Source> table = {{"cifar10", {open_cifar10, true, 32, false}},
                                                      {"image_folder", {open_image_folder, true, 224, true}},
                                                      {"packed", {open_packed, true, 224, true}},
                                                      {"shapes", {open_shapes, false, 32, false}},
                                                      {"synthetic", {open_synthetic, false, 32, true}}};
  return table;
}

const Source& source_of(const Config::Data& data) {
  const auto found = sources().find(data.name);
  REQUIRE_USAGE(found != sources().end(), "set data.name to cifar10, image_folder, packed, shapes or synthetic",
                "there is no data set '", data.name, "'");
  return found->second;
}

}  // namespace

int64_t image_side(const Config::Data& data) {
  const Source& source = source_of(data);
  REQUIRE_USAGE(source.any_side || data.image_size == 0 || data.image_size == source.side,
                "leave data.image_size out, or use data.name: image_folder", "data.image_size is ", data.image_size,
                ", but '", data.name, "' is ", source.side, " x ", source.side);
  return data.image_size > 0 ? data.image_size : source.side;
}

Normalization normalization(const Config::Data& data, Normalization own) {
  const auto take = [](const std::vector<double>& named, std::array<float, 3>& numbers) {
    for (size_t c = 0; c < named.size(); ++c) numbers[c] = static_cast<float>(named[c]);
  };
  take(data.mean, own.mean);
  take(data.deviation, own.deviation);
  return own;
}

uint64_t Datasets::fingerprint() const {
  const uint64_t both[] = {train ? train->fingerprint() : 0, test->fingerprint()};
  return octet::fingerprint(0, both);
}

Datasets open_datasets(const Config& config, bool training) {
  const auto& data = config.data;
  const Source& source = source_of(data);
  image_side(data);  // fits
  REQUIRE_USAGE(!source.on_disk || data.samples == 0, "set data.samples: 0; train.steps ends a training early",
                "data.samples is ", data.samples, ", but '", data.name, "' has its own images");
  Datasets sets = source.open(config, training);
  const Dataset& test = *sets.test;
  REQUIRE_USAGE(test.classes() > 1, "give two folders of classes or more", "the data has one class: ", test.describe());
  REQUIRE_USAGE(test.classes() == config.model.classes, say("set model.classes to ", test.classes()),
                "model.classes is ", config.model.classes, ", but the data has ", test.classes(),
                " classes: ", test.describe());
  REQUIRE_USAGE(!training || sets.train->size() >= data.batch, say("set data.batch to at most ", sets.train->size()),
                "data.batch is ", data.batch, ", but the training set has only ", sets.train->size(),
                " images: ", sets.train->describe());
  REQUIRE_USAGE(test.size() > 0, "put images into the test set", "the test set is empty: ", test.describe());
  return sets;
}

}  // namespace octet
