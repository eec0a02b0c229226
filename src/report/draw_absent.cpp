// Replaces the files that need OpenCV in a build without it.
#include "kernels/base/error.h"
#include "src/report/draw_truth.h"

namespace octet {

int64_t draw_truth(const Config& config, const DrawOptions&) {
  throw UsageError(__FILE__, __LINE__, say(config.file, ": this octet was built without folders of images"),
                   "build it with -DOCTET_IMAGE_FOLDER=ON");
}

}  // namespace octet
