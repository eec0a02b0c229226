#include "src/data/sources/named_images.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <mutex>

#include "kernels/base/error.h"
#include "src/data/images/image_files.h"
#include "src/data/images/image_format.h"
#include "src/data/sources/detection_set.h"
#include "src/data/sources/folder_index.h"
#include "src/data/sources/source.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

void add_folder(const std::string& folder, std::vector<std::string>& files) {
  try {
    const std::vector<std::string> names = find_image_files(folder).names;
    REQUIRE_USAGE(!names.empty(), "name a folder of images", folder, " holds no ", image_endings(), " file");
    for (const std::string& name : names) files.push_back((fs::path(folder) / name).string());
  } catch (const fs::filesystem_error& error) {
    REQUIRE_USAGE(false, "check the permissions of the folder", error.what());
  }
}

class Selected final : public Dataset {
 public:
  Selected(const Dataset& all, std::vector<int64_t> indices) : all_(all), indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  int64_t classes() const override { return all_.classes(); }
  ImageShape shape() const override { return all_.shape(); }
  std::string describe() const override { return say(size(), " of ", all_.describe()); }
  int32_t label(int64_t index) const override { return all_.label(of(index)); }
  uint64_t fingerprint() const override { return all_.fingerprint(); }
  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    return all_.read(of(index), training, seed, epoch, pixels);
  }
  std::string file_of(int64_t index) const override { return all_.file_of(of(index)); }
  int64_t skipped() const override { return all_.skipped(); }
  int canvases() const override { return all_.canvases(); }
  ImageShape canvas_shape(int canvas) const override { return all_.canvas_shape(canvas); }
  int canvas(int64_t index) const override { return all_.canvas(of(index)); }
  std::vector<std::string> class_names() const override { return all_.class_names(); }
  const Annotations* annotations() const override { return all_.annotations(); }
  bool read_with_truth(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels,
                       Truth& truth) const override {
    const size_t before = truth.images.size();
    const bool present = all_.read_with_truth(of(index), training, seed, epoch, pixels, truth);
    if (truth.images.size() > before) truth.images.back().index = index;
    return present;
  }

 private:
  int64_t of(int64_t index) const { return indices_[static_cast<size_t>(index)]; }

  const Dataset& all_;
  const std::vector<int64_t> indices_;
};

// Of a classifier.
class PixelImages final : public Dataset {
 public:
  PixelImages(std::vector<OpenedImage> images, int64_t classes, Crops crops)
      : images_(std::move(images)), classes_(classes), crops_(std::move(crops)) {}
  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return crops_.shape(); }
  std::string describe() const override { return say(size(), " images in memory"); }
  int32_t label(int64_t) const override { return -1; }
  uint64_t fingerprint() const override { return 0; }  // no run holds it
  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    crops_.write(index, training, seed, epoch, images_[static_cast<size_t>(index)], pixels);
    return true;
  }

 private:
  const std::vector<OpenedImage> images_;
  const int64_t classes_;
  const Crops crops_;
};

OpenedImage opened(const RgbPixels& image) {
  REQUIRE_USAGE(image.pixels != nullptr && image.height > 0 && image.width > 0 && image.height < int64_t{1} << 31 &&
                    image.width < int64_t{1} << 31,
                "give pixels, and a height and width of 1 or more", "an image of ", image.height, " x ", image.width,
                image.pixels == nullptr ? " without pixels" : "");
  return {{image.height, image.width}, [image](double) {
            return Raster(static_cast<int>(image.height), static_cast<int>(image.width), 3,
                          const_cast<uint8_t*>(image.pixels));  // only read
          }};
}

// Nothing says how images without annotations are to be seen.
ViewOfUndecided as_stored() {
  return [warned = std::make_shared<std::once_flag>()](const std::string& path) {
    std::call_once(*warned, [&] {
      spdlog::warn(
          "{} is stored turned or mirrored, as EXIF says, and is read as stored, as are others of its kind: "
          "set data.turn_upright to true for a network that was trained on upright pictures, or else to false",
          path);
    });
    return View::stored;
  };
}

}  // namespace

std::vector<std::string> find_images(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    REQUIRE_USAGE(fs::exists(status), "check the path", path, ": there is no such file or folder");
    if (fs::is_directory(status))
      add_folder(path, files);
    else
      files.push_back(path);
  }
  return files;
}

std::unique_ptr<Dataset> open_named_images(const Config& config, const std::vector<std::string>& files,
                                           const Classes& classes, BadFiles bad) {
  Config::Data data = config.data;
  data.bad_images = bad == BadFiles::skip ? "skip" : "refuse";
  const SourceTraits source = source_traits(data);
  if (!source.objects) {
    FolderIndex index{.folder = {}, .classes = classes.names, .files = {}, .ignored = {}};
    for (const std::string& file : files) index.files.emplace_back(file, -1);
    return make_image_folder(std::move(index), Crops(data, {}, source.middle), data);
  }
  Annotations images;
  images.classes = classes.names;
  images.category_ids = classes.category_ids;
  for (const std::string& file : files)
    images.images.push_back({.id = static_cast<int64_t>(images.images.size()) + 1,
                             .name = fs::path(file).filename().string(),
                             .path = file,
                             .objects = {}});
  OpenImage open = image_files(images, data, as_stored());
  return std::make_unique<DetectionSet>("images", std::move(images), std::move(open), data, image_side(data));
}

std::unique_ptr<Dataset> open_pixels(const Config& config, const std::vector<RgbPixels>& images,
                                     const Classes& classes) {
  const SourceTraits source = source_traits(config.data);
  std::vector<OpenedImage> all;
  for (const RgbPixels& image : images) all.push_back(opened(image));
  if (!source.objects)
    return std::make_unique<PixelImages>(std::move(all), static_cast<int64_t>(classes.names.size()),
                                         Crops(config.data, {}, source.middle));
  Annotations unknown;
  unknown.classes = classes.names;
  unknown.category_ids = classes.category_ids;
  for (const RgbPixels& image : images)
    unknown.images.push_back({.id = static_cast<int64_t>(unknown.images.size()) + 1,
                              .name = {},
                              .path = {},
                              .width = static_cast<int32_t>(image.width),
                              .height = static_cast<int32_t>(image.height),
                              .objects = {}});
  OpenImage open = [all = std::move(all)](int64_t index) { return all[static_cast<size_t>(index)]; };
  return std::make_unique<DetectionSet>("images in memory", std::move(unknown), std::move(open), config.data,
                                        image_side(config.data));
}

std::unique_ptr<Dataset> selected(const Dataset& all, std::vector<int64_t> indices) {
  return std::make_unique<Selected>(all, std::move(indices));
}

}  // namespace octet
