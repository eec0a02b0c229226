// Changes of training images that have one class each, as the keys augment.* ask for. They are functions of seed, epoch
// and index. Each has random numbers of its own, so that turning one on or off changes no other.
#pragma once
#include <cstdint>

#include "src/config/config.h"
#include "src/data/images/picture.h"

namespace octet {

class Augmentation {
 public:
  explicit Augmentation(const Config::Augment& keys) : keys_(keys) {}
  bool changes_bytes() const { return keys_.randaugment > 0 || !keys_.color_jitter.empty(); }
  // RandAugment and changes of colour, in place.
  void change(const Picture&, uint64_t seed, int64_t epoch, int64_t index) const;
  // Takes a random rectangle of the pixels (height, width, 4) away, so that it reads as 0.
  void erase(uint8_t* pixels, int64_t height, int64_t width, uint64_t seed, int64_t epoch, int64_t index) const;

 private:
  void jitter_colors(const Picture&, uint64_t seed, int64_t epoch, int64_t index) const;

  Config::Augment keys_;
};

// UsageError: a key of augment.* is set that images with objects, without them, or random ones do not have; or
// color_jitter is no list of one to four numbers, the last at most 0.5.
void check_augmentation(const Config&, bool has_objects);

}  // namespace octet
