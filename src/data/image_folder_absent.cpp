// Stands in for image_folder.cpp in a build without OpenCV.
#include "kernels/base/error.h"
#include "src/data/sources.h"

namespace octet {

Datasets open_image_folder(const Config& config) {
  throw UsageError(__FILE__, __LINE__, say(config.file, ": this octet was built without the image_folder data set"),
                   "build it with -DOCTET_IMAGE_FOLDER=ON, or set data.name to cifar10, shapes or synthetic");
}

}  // namespace octet
