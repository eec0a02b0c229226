#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <opencv2/imgproc.hpp>
#include <set>

#include "kernels/base/error.h"
#include "src/data/decode.h"
#include "src/data/draws.h"
#include "src/data/sources.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

struct Index {
  fs::path folder;
  std::vector<std::string> classes;                // sorted
  std::vector<std::pair<std::string, int>> files;  // path below folder, class; sorted
  int64_t ignored = 0;                             // files that are no images by their names
};

bool names_an_image(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// Whatever is named like an image is one: a folder or a dangling link of such a name is a bad image, not a silent gap.
Index index_folder(const fs::path& folder) {
  Index index;
  index.folder = folder;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && name[0] != '.') index.classes.push_back(name);
    }
    std::sort(index.classes.begin(), index.classes.end());
    for (size_t label = 0; label < index.classes.size(); ++label) {
      std::vector<std::string> names;
      for (const auto& entry : fs::directory_iterator(folder / index.classes[label])) {
        if (names_an_image(entry.path()))
          names.push_back(index.classes[label] + "/" + entry.path().filename().string());
        else
          ++index.ignored;
      }
      REQUIRE(!names.empty(), "put images into the folder, or remove it", (folder / index.classes[label]).string(),
              ": the folder of a class holds no .jpg, .jpeg or .png file");
      std::sort(names.begin(), names.end());
      for (auto& name : names) index.files.emplace_back(std::move(name), static_cast<int>(label));
    }
  } catch (const fs::filesystem_error& error) {
    REQUIRE(false, "data.root must hold train/<class>/*.jpg and val/<class>/*.jpg, readable by you", error.what());
  }
  REQUIRE(!index.classes.empty(), "data.root must hold train/<class>/*.jpg and val/<class>/*.jpg", folder.string(),
          ": no folders of classes here");
  return index;
}

std::vector<uint8_t> read_file(const fs::path& file, int64_t most) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) throw BadImage(failed ? failed.message() : "not a regular file");
  const auto size = static_cast<int64_t>(fs::file_size(file, failed));
  if (failed) throw BadImage(failed.message());
  if (size > most) throw BadImage(say("a file of ", size, " bytes, more than data.max_pixels could fill"));
  std::vector<uint8_t> bytes(size);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), size);
  if (stream.gcount() != size) throw BadImage("cannot be read");
  return bytes;
}

// A rectangle of the full image: a share of 8 % to 100 % of its area, of ratio 3/4 to 4/3, anywhere in it. Ten tries,
// then the largest middle part of a ratio in that range. As torchvision.transforms.RandomResizedCrop.
cv::Rect random_crop(Draws& draws, int64_t width, int64_t height) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = static_cast<double>(width * height) * draws.uniform(0.08f, 1);
    const double ratio = std::exp(draws.uniform(std::log(3.0f / 4), std::log(4.0f / 3)));
    const int64_t w = std::lround(std::sqrt(area * ratio)), h = std::lround(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int64_t y = draws.below(static_cast<uint32_t>(height - h + 1)),
                  x = draws.below(static_cast<uint32_t>(width - w + 1));
    return cv::Rect(static_cast<int>(x), static_cast<int>(y), static_cast<int>(w), static_cast<int>(h));
  }
  const int64_t w = std::clamp<int64_t>(std::lround(height * (4.0 / 3)), 1, width);
  const int64_t h = std::clamp<int64_t>(std::lround(width * (4.0 / 3)), 1, height);
  return cv::Rect(static_cast<int>(width - w) / 2, static_cast<int>(height - h) / 2, static_cast<int>(w),
                  static_cast<int>(h));
}

// The middle square of 224/256 of the shorter side: what is left when the shorter side is resized to 256 and the middle
// 224 x 224 are cut out.
cv::Rect middle_crop(int64_t width, int64_t height) {
  const int64_t side = std::max<int64_t>(1, std::lround(static_cast<double>(std::min(width, height)) * (224.0 / 256)));
  return cv::Rect(static_cast<int>(width - side) / 2, static_cast<int>(height - side) / 2, static_cast<int>(side),
                  static_cast<int>(side));
}

class ImageFolder : public Dataset {
 public:
  ImageFolder(Index index, const Config::Data& data)
      : index_(std::move(index)),
        side_(static_cast<int>(data.image_size ? data.image_size : 224)),
        max_pixels_(data.max_pixels),
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
  int64_t skipped() const override {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(bad_.size());
  }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, float* pixels) const override {
    const fs::path file = index_.folder / index_.files[index].first;
    try {
      const std::vector<uint8_t> bytes = read_file(file, 8 * max_pixels_ + (1 << 20));
      const ImageHeader header = read_header(bytes, max_pixels_);
      Draws draws(seed, epoch, DrawSite::augment, index);
      const bool augmented = training && augment_;
      const cv::Rect crop =
          augmented ? random_crop(draws, header.width, header.height) : middle_crop(header.width, header.height);
      const cv::Mat image = view(bytes, header, crop);
      normalize(image, augmented && draws.bits() >> 31, pixels);
      return true;
    } catch (const BadImage& bad) {
      REQUIRE(skip_, "mend or remove the file, or set data.bad_images: skip", file.string(), ": ", bad.what());
      std::lock_guard lock(mutex_);
      if (bad_.insert(index).second) spdlog::warn("skipped {}: {}", file.string(), bad.what());
      return false;
    }
  }

 private:
  // That rectangle of the full image, resized to side x side.
  cv::Mat view(const std::vector<uint8_t>& bytes, const ImageHeader& header, const cv::Rect& crop) const {
    const cv::Mat image = decode(bytes, header, std::max(1.0 * side_ / crop.width, 1.0 * side_ / crop.height));
    // The same rectangle in the decoded size.
    const double across = 1.0 * image.cols / static_cast<double>(header.width);
    const double down = 1.0 * image.rows / static_cast<double>(header.height);
    const int x = std::min(static_cast<int>(crop.x * across), image.cols - 1);
    const int y = std::min(static_cast<int>(crop.y * down), image.rows - 1);
    const int width = std::clamp(static_cast<int>(std::lround(crop.width * across)), 1, image.cols - x);
    const int height = std::clamp(static_cast<int>(std::lround(crop.height * down)), 1, image.rows - y);
    const bool shrinks = width > side_ || height > side_;
    cv::Mat result;
    cv::resize(image(cv::Rect(x, y, width, height)), result, {side_, side_}, 0, 0,
               shrinks ? cv::INTER_AREA : cv::INTER_LINEAR);
    return result;
  }

  void normalize(const cv::Mat& image, bool flip, float* pixels) const {
    constexpr float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
    float scale[3], shift[3];
    for (int c = 0; c < 3; ++c) {
      scale[c] = 1 / (255 * deviation[c]);
      shift[c] = -mean[c] / deviation[c];
    }
    for (int y = 0; y < side_; ++y) {
      const uint8_t* row = image.ptr(y);
      for (int x = 0; x < side_; ++x, pixels += 3) {
        const uint8_t* from = row + int64_t{3} * (flip ? side_ - 1 - x : x);
        for (int c = 0; c < 3; ++c) pixels[c] = static_cast<float>(from[c]) * scale[c] + shift[c];
      }
    }
  }

  const Index index_;
  const int side_;
  const int64_t max_pixels_;
  const bool augment_, skip_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> bad_;
};

}  // namespace

Datasets open_image_folder(const Config& config) {
  cv::setNumThreads(0);  // the loader has its own threads
  const fs::path root = config.data.root;
  Index train = index_folder(root / "train");
  Index test = index_folder(fs::is_directory(root / "val") ? root / "val" : root / "test");
  if (train.classes != test.classes) {
    std::vector<std::string> differ;
    std::set_symmetric_difference(train.classes.begin(), train.classes.end(), test.classes.begin(), test.classes.end(),
                                  std::back_inserter(differ));
    REQUIRE(false, "give both the same folders of classes", train.folder.string(), " and ", test.folder.string(),
            " have different classes: '", differ.front(), "' is in one only");
  }
  return {std::make_unique<ImageFolder>(std::move(train), config.data),
          std::make_unique<ImageFolder>(std::move(test), config.data)};
}

}  // namespace octet
