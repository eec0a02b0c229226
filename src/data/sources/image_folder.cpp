// Folders of image files, one for each class: train/ and val/ or test/ in data.root, or one that data.holdout divides.
#include <filesystem>

#include "kernels/base/error.h"
#include "src/data/fingerprint.h"
#include "src/data/images/bad_images.h"
#include "src/data/images/decode.h"
#include "src/data/images/image_files.h"
#include "src/data/sources/folder_index.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public Dataset {
 public:
  ImageFolder(FolderIndex index, Crops crops, const Config::Data& data)
      : index_(std::move(index)), crops_(std::move(crops)), max_pixels_(data.max_pixels), bad_(data) {
    say_doubts(index_);
  }

  int64_t size() const override { return static_cast<int64_t>(index_.files.size()); }
  int64_t classes() const override { return static_cast<int64_t>(index_.classes.size()); }
  ImageShape shape() const override { return crops_.shape(); }
  std::string describe() const override {
    return say("image_folder: ", size(), " images of ", classes(), " classes in ", index_.folder.string(), " (",
               ignored_text(index_.ignored), ")",
               index_.divided > 0 ? say(", held out of ", index_.divided) : std::string());
  }
  int32_t label(int64_t index) const override { return index_.files[index].second; }
  uint64_t fingerprint() const override {
    uint64_t all = 0;
    for (const std::string& name : index_.classes) all = octet::fingerprint(all, name);
    for (const auto& [file, label] : index_.files) all = octet::fingerprint(all, file);
    return all;
  }
  std::vector<std::string> class_names() const override { return index_.classes; }
  void number_as(const Classes& known) override {
    octet::number_as(known.names, index_);
    say_doubts(index_);
  }
  std::vector<std::string> absent_classes() const override { return octet::absent_classes(index_); }
  std::string file_of(int64_t index) const override { return index_.files[index].first; }
  int64_t skipped() const override { return bad_.count(); }

  int64_t bytes_to_read(int64_t index, bool training) const override {
    return octet::bytes_to_read(index_.folder / index_.files[index].first, max_pixels_, crops_.largest_scale(training),
                                shape().width);
  }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    const fs::path file = index_.folder / index_.files[index].first;
    try {
      const OpenedImage image = open_image(file, max_pixels_, View::upright);
      crops_.write(index, training, seed, epoch, image, pixels);
      return true;
    } catch (const BadImage& bad) {
      bad_.add(index, file.string(), bad);
      return false;
    }
  }

 private:
  FolderIndex index_;
  const Crops crops_;
  const int64_t max_pixels_;
  mutable BadImages bad_;
};

}  // namespace

std::unique_ptr<Dataset> make_image_folder(FolderIndex index, Crops crops, const Config::Data& data) {
  return std::make_unique<ImageFolder>(std::move(index), std::move(crops), data);
}

Datasets open_image_folder(const Config& config, bool training) {
  const Crops crops(config.data, config.augment);
  if (!training) return {nullptr, make_image_folder(index_test_images(config.data), crops, config.data)};
  auto [train, test] = index_image_folder(config.data);
  return {make_image_folder(std::move(train), crops, config.data),
          make_image_folder(std::move(test), crops, config.data)};
}

}  // namespace octet
