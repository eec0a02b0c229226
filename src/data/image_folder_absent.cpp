// Replaces the files that need OpenCV in a build without it.
#include "kernels/base/error.h"
#include "src/data/examine.h"
#include "src/data/loader.h"
#include "src/data/pack.h"

namespace octet {
namespace {

constexpr const char* fix = "build it with -DOCTET_IMAGE_FOLDER=ON, or set data.name to cifar10, shapes or synthetic";

[[noreturn]] void refuse(const Config& config) {
  throw UsageError(__FILE__, __LINE__, say(config.file, ": this octet was built without folders of images"), fix);
}

}  // namespace

Datasets open_image_folder(const Config& config, bool) { refuse(config); }
Datasets open_packed(const Config& config, bool) { refuse(config); }
Datasets open_shapes_detection(const Config& config, bool) { refuse(config); }
PackReport pack_image_folder(const Config& config, const std::string&) { refuse(config); }
std::vector<ImageFacts> examine_images(const std::vector<AnnotatedImage>&, const Config::Data&) {
  throw UsageError(__FILE__, __LINE__, "this octet was built without folders of images", fix);
}

}  // namespace octet
