// Images that `octet pack` decoded: train.pack and val.pack in data.root, mapped into memory, cropped and resized while
// training.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "kernels/base/error.h"
#include "src/data/augment/crops.h"
#include "src/data/fingerprint.h"
#include "src/data/images/bad_images.h"
#include "src/data/images/open_image.h"
#include "src/data/loader.h"
#include "src/data/sources/pack.h"

namespace octet {
namespace {

class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would wait for its writer
    REQUIRE_USAGE(file >= 0, "data.root must hold train.pack and val.pack: `octet pack` writes them", "cannot open ",
                  path);
    struct stat status = {};
    const bool known = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    void* data = known ? mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    REQUIRE_USAGE(data != MAP_FAILED, "pack the images again", "cannot read ", path);
    bytes_ = {static_cast<const uint8_t*>(data), size_t(status.st_size)};
  }
  ~Mapping() { munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size()); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

class Packed final : public Dataset {
 public:
  Packed(const std::string& path, const Config& config)
      : path_(path), file_(path), crops_(config.data, config.augment), bad_images_(config.data) {
    PackIndex index = read_pack_index(file_.bytes(), path);
    REQUIRE_USAGE(uint64_t(shape().width) <= index.image_size, say("pack again with data.image_size: ", shape().width),
                  path_, " was packed for images of ", index.image_size, " pixels, and data.image_size is ",
                  shape().width);
    names_ = std::move(index.classes);
    images_ = std::move(index.images);
  }
  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  int64_t classes() const override { return static_cast<int64_t>(names_.size()); }
  ImageShape shape() const override { return crops_.shape(); }
  std::string describe() const override {
    return say("packed: ", size(), " images of ", classes(), " classes in ", path_);
  }
  int32_t label(int64_t index) const override { return int32_t(images_[size_t(index)].label); }
  uint64_t fingerprint() const override {
    uint64_t all = 0;
    for (const std::string& name : names_) all = octet::fingerprint(all, name);
    return octet::fingerprint(all, images_);  // which holds the hashes of all pixels
  }
  int64_t skipped() const override { return bad_images_.count(); }
  std::vector<std::string> class_names() const override { return names_; }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    const PackedImage& at = images_[size_t(index)];
    const std::span<const uint8_t> rows = file_.bytes().subspan(at.offset, 3 * size_t{at.width} * at.height);
    if (hash_of(at, rows) != at.hash) {
      bad_images_.add(index, say("image ", index, " of ", path_),
                      BadImage(ImageFault::damaged, "its pixels or its class have changed since it was packed",
                               "pack the images again"));
      return false;
    }
    auto* const bytes = const_cast<uint8_t*>(rows.data());
    const OpenedImage image{{at.height, at.width},
                            [&](double) { return Raster(int(at.height), int(at.width), 3, bytes); }};
    crops_.write(index, training, seed, epoch, image, pixels);
    return true;
  }

 private:
  std::string path_;
  Mapping file_;
  Crops crops_;
  mutable BadImages bad_images_;
  std::vector<std::string> names_;
  std::vector<PackedImage> images_;
};

}  // namespace

Datasets open_packed(const Config& config, bool training) {
  auto test = std::make_unique<Packed>(config.data.root + "/val.pack", config);
  if (!training) return {nullptr, std::move(test)};
  auto train = std::make_unique<Packed>(config.data.root + "/train.pack", config);
  REQUIRE_USAGE(train->class_names() == test->class_names(), "pack both again", config.data.root,
                ": train.pack and val.pack have different classes");
  return {std::move(train), std::move(test)};
}

}  // namespace octet
