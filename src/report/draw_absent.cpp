// Replaces the files that need OpenCV in a build without it.
#include "kernels/base/error.h"
#include "src/report/class_check.h"
#include "src/report/draw_predictions.h"
#include "src/report/folder_facts.h"
#include "src/report/mistake_pictures.h"
#include "src/report/picture_files.h"
#include "src/report/validation_pictures.h"

namespace octet {

namespace {
[[noreturn]] void refuse_without_images(const Config& config) {
  throw UsageError(__FILE__, __LINE__, say(config.file, ": this octet was built without folders of images"),
                   "build it with -DOCTET_IMAGE_FOLDER=ON");
}
}  // namespace

DataCheck check_image_folder(const Config& config) { refuse_without_images(config); }
int64_t draw_truth(const Config& config, const DrawOptions&) { refuse_without_images(config); }

int64_t draw_predictions(const Config& config, Transport&, const PredictionDrawing& options) {
  return draw_truth(config, options);
}

std::vector<ValidationPicture> validation_pictures(const Config&, std::span<const Detection>, int64_t, double) {
  return {};
}

std::string picture_of_file(const Predictor&, const std::string&, const Prediction&, int) { return {}; }

FolderFacts look_at_folder(const std::string& root) {
  throw UsageError(__FILE__, __LINE__, say(root, ": this octet was built without folders of images"),
                   "build it with -DOCTET_IMAGE_FOLDER=ON");
}

std::vector<SmallPicture> small_pictures(const Config&, int64_t, std::span<const Answer>) { return {}; }

}  // namespace octet
