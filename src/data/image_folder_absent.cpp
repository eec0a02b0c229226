// Replaces the files that need OpenCV in a build without it.
#include "kernels/base/error.h"
#include "src/data/examine.h"
#include "src/data/loader.h"
#include "src/data/make_shapes.h"
#include "src/data/named_images.h"
#include "src/data/pack.h"
#include "src/data/pixels.h"

namespace octet {
namespace {

[[noreturn]] void refuse(const std::string& where) {
  throw UsageError(
      __FILE__, __LINE__, say(where, ": this octet was built without folders of images and without resizing"),
      "build it with -DOCTET_IMAGE_FOLDER=ON, or set data.name to cifar10, shapes or synthetic, with data.image_size: "
      "0");
}

}  // namespace

Datasets open_image_folder(const Config& config, bool) { refuse(config.file); }
std::unique_ptr<Dataset> make_resized(Pixels, const Config& config) { refuse(config.file); }
Datasets open_packed(const Config& config, bool) { refuse(config.file); }
Datasets open_annotated(const Config& config, bool) { refuse(config.file); }
std::vector<std::string> find_images(const std::vector<std::string>& paths) { refuse(paths.front()); }
std::unique_ptr<Dataset> open_named_images(const Config& config, const std::vector<std::string>&, const Classes&) {
  refuse(config.file);
}
std::unique_ptr<Dataset> selected(const Dataset& all, std::vector<int64_t>) { refuse(all.describe()); }
Datasets open_shapes_detection(const Config& config, bool) { refuse(config.file); }
PackReport pack_image_folder(const Config& config, const std::string&) { refuse(config.file); }
void make_shapes(const std::string& directory, int64_t, int, const std::function<void(int64_t, int64_t)>&) {
  refuse(directory);
}
std::vector<ImageFacts> examine_images(const std::vector<std::string>&, const Config::Data& data, Examine) {
  refuse(data.root);
}

}  // namespace octet
