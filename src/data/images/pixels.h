// A data set of small images, augmented as they are read: CIFAR-10 and shapes.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/data/loader.h"

namespace octet {

struct Pixels {
  int64_t side = 32;                  // height and width; three channels
  std::vector<uint8_t> images;        // (count, side, side, 3); empty: `fetch` reads them
  std::vector<uint8_t> labels;        // (count)
  std::vector<std::string> classes;   // names, by label
  int64_t padding = 0;                // training: zero pixels around the picture before a random crop; then a flip
  bool augment = true;                // padding and flips
  Config::Augment augmentation = {};  // what else training does
  std::string description;
  std::function<void(int64_t index, uint8_t* image)> fetch = {};  // (side, side, 3); by any thread. FileError

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// What the data sets of such images have in common.
class PixelDataset : public Dataset {
 public:
  explicit PixelDataset(Pixels pixels) : pixels_(std::move(pixels)) {}
  int64_t size() const override { return pixels_.count(); }
  int64_t classes() const override { return static_cast<int64_t>(pixels_.classes.size()); }
  std::vector<std::string> class_names() const override { return pixels_.classes; }
  int32_t label(int64_t index) const override { return pixels_.labels[static_cast<size_t>(index)]; }
  uint64_t fingerprint() const override;

 protected:
  // (side, side, 3): where it lies in memory, or `buffer`, which then holds it.
  const uint8_t* image(int64_t index, std::vector<uint8_t>& buffer) const;

  const Pixels pixels_;
};
std::unique_ptr<Dataset> make_dataset(Pixels);
// Its images are resized to data.image_size. Training reads random crops of them, without the padding of `Pixels`.
std::unique_ptr<Dataset> make_resized(Pixels, const Config&);

// Appends the records of one file of CIFAR-10, given as its bytes, to `pixels`. Throws Error naming `file` unless it is
// exactly `records` records of 1 label below 10 and 3072 pixels (red, green, blue planes). first: the number of the
// first record in the file, for messages.
void parse_cifar10(std::span<const uint8_t> bytes, const std::string& file, int64_t records, Pixels& pixels,
                   int64_t first = 0);

}  // namespace octet
