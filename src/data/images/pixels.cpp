#include "src/data/images/pixels.h"

#include <algorithm>
#include <cstring>

#include "src/data/augment/augmentation.h"
#include "src/data/draws.h"
#include "src/data/fingerprint.h"
#include "src/data/images/normalization.h"
#include "src/data/images/pixel_bytes.h"

namespace octet {
namespace {

class StoredPixels final : public PixelDataset {
 public:
  explicit StoredPixels(Pixels pixels)
      : PixelDataset(std::move(pixels)), augmentation_(pixels_.augmentation), row_(pixels_.side * 3) {}

  ImageShape shape() const override { return {pixels_.side, pixels_.side, 3}; }
  std::string describe() const override { return pixels_.description; }

  bool read(int64_t index, bool training, uint64_t seed, int64_t epoch, uint8_t* pixels) const override {
    const int64_t side = pixels_.side;
    std::vector<uint8_t> buffer;
    const std::span<const uint8_t> image(this->image(index, buffer), side * row_);
    if (!training) {
      write_pixels(image.data(), side * side, pixels);
      return true;
    }
    std::vector<uint8_t> picture(image.size());
    if (pixels_.augment)
      crop(image, seed, epoch, index, picture);
    else
      std::ranges::copy(image, picture.begin());
    if (augmentation_.changes_bytes()) augmentation_.change({side, side, picture}, seed, epoch, index);
    write_pixels(picture.data(), side * side, pixels);
    augmentation_.erase(pixels, side, side, seed, epoch, index);
    return true;
  }

 private:
  // Row y of the crop is row y + down of the image, moved by `right` pixels, and perhaps mirrored. Pixels outside of
  // the image are zero.
  void crop(std::span<const uint8_t> image, uint64_t seed, int64_t epoch, int64_t index,
            std::vector<uint8_t>& picture) const {
    const int64_t side = pixels_.side;
    Draws draws(seed, epoch, DrawStream::augment, index);
    const auto offsets = static_cast<uint32_t>(2 * pixels_.padding + 1);
    const int64_t down = draws.below(offsets) - pixels_.padding, right = draws.below(offsets) - pixels_.padding;
    const bool flip = draws.bits() >> 31;
    const int64_t from = std::max<int64_t>(right, 0), to = std::max<int64_t>(-right, 0), kept = side - from - to;
    for (int64_t y = std::max<int64_t>(0, -down); y < std::min(side, side - down); ++y) {
      const uint8_t* source = image.data() + (y + down) * row_ + from * 3;
      uint8_t* row = picture.data() + y * row_;
      if (!flip) {
        memcpy(row + to * 3, source, kept * 3);
        continue;
      }
      uint8_t* target = row + (side - 1 - to) * 3;
      for (int64_t x = 0; x < kept; ++x, source += 3, target -= 3) {
        target[0] = source[0];
        target[1] = source[1];
        target[2] = source[2];
      }
    }
  }

  Augmentation augmentation_;
  int64_t row_;  // number of values in a row
};

}  // namespace

const uint8_t* PixelDataset::image(int64_t index, std::vector<uint8_t>& buffer) const {
  const int64_t bytes = pixels_.side * pixels_.side * 3;
  if (!pixels_.fetch) return pixels_.images.data() + index * bytes;
  buffer.resize(bytes);
  pixels_.fetch(index, buffer.data());
  return buffer.data();
}

// The hash of all bytes, one image after the other.
uint64_t PixelDataset::fingerprint() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset_withSeed(state.get(), octet::fingerprint(0, pixels_.labels));
  std::vector<uint8_t> buffer;
  for (int64_t i = 0; i < size(); ++i)
    XXH3_64bits_update(state.get(), image(i, buffer), pixels_.side * pixels_.side * 3);
  return XXH3_64bits_digest(state.get());
}

Normalization normalization(const Config::Data& data, Normalization own) {
  const auto take = [](const std::vector<double>& named, std::array<float, 3>& numbers) {
    for (size_t c = 0; c < named.size(); ++c) numbers[c] = static_cast<float>(named[c]);
  };
  take(data.mean, own.mean);
  take(data.deviation, own.deviation);
  return own;
}

std::unique_ptr<Dataset> make_dataset(Pixels pixels) { return std::make_unique<StoredPixels>(std::move(pixels)); }

}  // namespace octet
