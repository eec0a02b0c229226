// Folders of JPEG and PNG files: train/<class>/ and val/<class>/ or test/<class>/ in data.root.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "kernels/base/error.h"
#include "src/data/crops.h"
#include "src/data/decode.h"
#include "src/data/draws.h"
#include "src/data/fingerprint.h"
#include "src/data/folder_index.h"
#include "src/data/loader.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public Dataset {
 public:
  ImageFolder(FolderIndex index, const Config::Data& data)
      : index_(std::move(index)),
        side_(static_cast<int>(image_side(data))),
        max_pixels_(data.max_pixels),
        normalization_(normalization(data, of_photographs)),
        augment_(data.augment),
        skip_(data.bad_images == "skip") {}

  int64_t size() const override { return static_cast<int64_t>(index_.files.size()); }
  int64_t classes() const override { return static_cast<int64_t>(index_.classes.size()); }
  ImageShape shape() const override { return {side_, side_, 3}; }
  std::string describe() const override {
    return say("image_folder: ", size(), " images of ", classes(), " classes in ", index_.folder.string(), " (",
               index_.ignored, " other files ignored)");
  }
  int32_t label(int64_t index) const override { return index_.files[index].second; }
  uint64_t fingerprint() const override {
    uint64_t all = 0;
    for (const std::string& name : index_.classes) all = octet::fingerprint(all, name);
    for (const auto& [file, label] : index_.files) all = octet::fingerprint(all, file);
    return all;
  }
  int64_t skipped() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(bad_.size());
  }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, float* pixels) const override {
    const fs::path file = index_.folder / index_.files[index].first;
    try {
      const std::vector<uint8_t> bytes = read_image_file(file, 8 * max_pixels_ + (1 << 20));
      const ImageHeader header = read_header(bytes, max_pixels_);
      Draws draws(seed, epoch, DrawSite::augment, index);
      const bool augmented = training && augment_;
      const cv::Rect crop =
          augmented ? random_crop(draws, header.width, header.height) : middle_crop(header.width, header.height);
      const cv::Mat image = decode(bytes, header, std::max(1.0 * side_ / crop.width, 1.0 * side_ / crop.height));
      normalize(resized_crop(image, header.width, header.height, crop, side_), normalization_,
                augmented && draws.bits() >> 31, pixels);
      return true;
    } catch (const BadImage& bad) {
      REQUIRE(skip_, "mend the file, or set data.bad_images: skip; then --resume goes on", file.string(), ": ",
              bad.what());
      std::lock_guard lock(mutex_);
      if (bad_.insert(index).second) spdlog::warn("skipped {}: {}", file.string(), bad.what());
      return false;
    }
  }

 private:
  const FolderIndex index_;
  const int side_;
  const int64_t max_pixels_;
  const Normalization normalization_;
  const bool augment_, skip_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> bad_;
};

}  // namespace

Datasets open_image_folder(const Config& config, bool training) {
  cv::setNumThreads(0);  // the loader has its own threads
  if (!training) return {nullptr, std::make_unique<ImageFolder>(index_test_images(config.data.root), config.data)};
  auto [train, test] = index_image_folder(config.data.root);
  return {std::make_unique<ImageFolder>(std::move(train), config.data),
          std::make_unique<ImageFolder>(std::move(test), config.data)};
}

}  // namespace octet
