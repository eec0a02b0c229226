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
        pool_(std::min(size, pool_size) * side * side * 3) {
    // The sum of four uniform numbers, scaled to variance 1: close enough to normal for timing.
    Draws draws(0, 0, stream, 0);
    for (float& x : pool_) {
      const uint32_t bits = draws.bits();
      const auto sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
      x = (static_cast<float>(sum) - 510) * (1 / 147.8f);
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
  bool read(int64_t index, bool, uint64_t, int64_t, float* pixels) const override {
    const int64_t numbers = shape_.height * shape_.width * 3;
    std::copy_n(pool_.data() + index % std::min(size_, pool_size) * numbers, numbers, pixels);
    return true;
  }

 private:
  int64_t size_, classes_;
  ImageShape shape_;
  DrawStream stream_;
  std::vector<float> pool_;  // (min(size, 64), side, side, 3): image i is entry i % 64
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
