// Random pictures and labels of any size and number of classes. Reading one is a copy, for benchmarks.
#include <algorithm>

#include "kernels/base/error.h"
#include "src/data/draws.h"
#include "src/data/fingerprint.h"
#include "src/data/loader.h"

namespace octet {
namespace {

constexpr int64_t pool_size = 64;

class Synthetic : public Dataset {
 public:
  Synthetic(int64_t size, int64_t classes, int64_t side, DrawStream stream)
      : size_(size),
        classes_(classes),
        shape_{side, side, 3},
        stream_(stream),
        pool_(std::min(size, pool_size) * side * side * pixel_channels, 255) {
    // A color is the mean of two uniform numbers, which spreads as far as those of pictures.
    Draws draws(0, 0, stream, 0);
    for (size_t i = 0; i < pool_.size(); ++i)
      if (i % pixel_channels < 3) {
        const uint32_t bits = draws.bits();
        pool_[i] = static_cast<uint8_t>(((bits & 255) + (bits >> 8 & 255)) / 2);
      }
  }

  int64_t size() const override { return size_; }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return shape_; }
  std::string describe() const override {
    return say("synthetic: ", size_, " random images, ", shape_.height, " x ", shape_.width, ", ", classes_,
               " classes");
  }
  int32_t label(int64_t index) const override {
    return static_cast<int32_t>(Draws(0, 1, stream_, index).below(static_cast<uint32_t>(classes_)));
  }
  uint64_t fingerprint() const override {
    const int64_t all[] = {size_, classes_, shape_.height, int64_t(stream_)};
    return octet::fingerprint(0, all);
  }
  bool read(int64_t index, bool, uint64_t, int64_t, uint8_t* pixels) const override {
    const int64_t bytes = shape_.height * shape_.width * pixel_channels;
    std::copy_n(pool_.data() + index % std::min(size_, pool_size) * bytes, bytes, pixels);
    return true;
  }

 private:
  int64_t size_, classes_;
  ImageShape shape_;
  DrawStream stream_;
  std::vector<uint8_t> pool_;  // (min(size, 64), side, side, 4): image i is entry i % 64
};

}  // namespace

Datasets open_synthetic(const Config& config, bool training) {
  const int64_t samples = config.data.samples ? config.data.samples : 8192;
  const int64_t side = image_side(config.data);
  const auto train = [&] {
    return std::make_unique<Synthetic>(samples, config.model.classes, side, DrawStream::train_picture);
  };
  return {training ? train() : nullptr,
          std::make_unique<Synthetic>(std::max<int64_t>(samples / 4, 1), config.model.classes, side,
                                      DrawStream::test_picture)};
}

}  // namespace octet
